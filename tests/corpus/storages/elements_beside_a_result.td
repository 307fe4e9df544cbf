# Elements of a result's storage that the result does not show are those of eager: after a write to a part of a
# tensor, and after resize_.

func @part(%p: f32[9]) {
  %a = mul(%p, 2)
  %b = narrow(%a, 0, 3, 3)
  add_(%b, 1)
  return %b
}

func @shrink(%p: f32[9]) {
  %a = mul(%p, 2)
  resize_(%a, [3])
  sigmoid_(%a)
  return %a
}

func @from_start(%q: f32[3]) {
  %v = as_strided(%q, [9], [1], 0)
  return %v
}

case "a part of a tensor is written" {
  %p = randn([9], f32, seed=1)
  call @part(%p)
  %y... = call @from_start(%out.0)
}

case "with gradients" {
  %p = randn([9], f32, seed=1, requires_grad=true)
  call @part(%p)
  %y... = call @from_start(%out.0)
  backward
}

case "it is made smaller" {
  %p = randn([9], f32, seed=1)
  call @shrink(%p)
  %y... = call @from_start(%out.0)
}

case "with gradients, made smaller" {
  %p = randn([9], f32, seed=1, requires_grad=true)
  call @shrink(%p)
  %y... = call @from_start(%out.0)
}
