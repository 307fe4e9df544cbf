# Backward reads a written input through a copy, and views of it have the same relative offsets in the copy.

func @f(%p: f32[2,2]) {
  %v = unfold(%p, 1, 2, 2)
  %w = clamp_min_(%v, 1)
  relu6_(%w)
  return %w
}

case "a slice at an offset" {
  %a = randn([2,2,2], f32, seed=58, requires_grad=true)
  %b = mul(%a, 1.5)
  %c = select(%b, 0, 1)
  call @f(%c)
  backward
}

case "a piece with gaps" {
  %a = randn([2,4], f32, seed=58, requires_grad=true)
  %b = mul(%a, 1.5)
  %c = slice(%b, 1, 1, 4, 2)
  call @f(%c)
  backward
}

func @g(%p: f32[3,4]) {
  %v = transpose(%p, 0, 1)
  %r = select(%p, 0, 1)
  %y = exp(%v)
  %z = exp(%r)
  mul_(%p, 2)
  return %y, %z
}

case "reshaped, and a row of it" {
  %a = randn([4,6], f32, seed=5, requires_grad=true)
  %b = mul(%a, 1.5)
  %c = slice(%b, 0, 1, 4, 1)
  %d = slice(%c, 1, 1, 5, 1)
  call @g(%d)
  backward
}
