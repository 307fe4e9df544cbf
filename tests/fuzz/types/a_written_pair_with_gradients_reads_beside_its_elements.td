# Gradients, saved values and a second call of pairs that are written and addressed by as_strided.

func @f(%p0, %p1) {
  %v0 = as_strided(%p0, [2,2], [1,2], 1)
  %v1 = mul(%v0, %v0)
  %v2 = mul(%v1, %p1)
  no_grad {
    mul_(%p0, 3)
  }
  return %v2
}

func @g(%p0) {
  %v0 = as_strided(%p0, [2], [2], 0)
  exp_(%v0)
  %v1 = mul(%p0, %p0)
  return %v1
}

case "a saved part" {
  %a0 = randn([3,3], f32, seed=1)
  %a1 = randn([3,3], f32, seed=2)
  %a2 = _wrap([%a0, %a1], "fz_pair", "", [3,3], [], f32, requires_grad=true)
  %a3 = mul(%a2, 2)
  %a4 = select(%a3, 1, 1)
  %a5 = randn([2,2], f32, seed=3, requires_grad=true)
  call @f(%a4, %a5)
  backward seed=1
}

case "nested" {
  %a0 = randn([3,3], f32, seed=1)
  %a1 = randn([3,3], f32, seed=2)
  %a2 = randn([3,3], f32, seed=3)
  %a3 = _wrap([%a0, %a1], "fz_pair", "m", [3,3], [], f32)
  %a4 = _wrap([%a3, %a2], "fz_pair", "", [3,3], [], f32, requires_grad=true)
  %a5 = mul(%a4, 2)
  %a6 = select(%a5, 1, 0)
  call @g(%a6)
  backward seed=1
  call @g(%a6)
}
