# Each result can be differentiated alone, and both together cannot: the gradient that the hook returns and that of the
# argument have no sum. The trace of the function failed, and now a backward from both does, as in eager.

func @f(%p0, %p1) {
  %v2 = mul(%p1, 1.0)
  on_grad(%v2, func @hook(%g: f32[3], %a: f32[3]) {
      return %a
    }, [%p0])
  return %v2, %p1
}

case "no backward" {
  %a0 = tensor([1, 2, 3], f32)
  %a1 = tensor([-1, -2, -3], f32)
  %a2 = _wrap([%a0, %a1], "fz_pair", "m", [3], [], f32, requires_grad=true)
  %a3 = tensor([5, 6, 7], f32)
  %a4 = _wrap([%a3, %a1], "fz_pair", "", [3], [], f32)
  call @f(%a4, %a2) module=train
}

case "backward from the first result" {
  %a0 = tensor([1, 2, 3], f32)
  %a1 = tensor([-1, -2, -3], f32)
  %a2 = _wrap([%a0, %a1], "fz_pair", "m", [3], [], f32, requires_grad=true)
  %a3 = tensor([5, 6, 7], f32)
  %a4 = _wrap([%a3, %a1], "fz_pair", "", [3], [], f32)
  call @f(%a4, %a2) module=train
  backward %out.0 seed=3
}

case "backward from both results" {
  %a0 = tensor([1, 2, 3], f32)
  %a1 = tensor([-1, -2, -3], f32)
  %a2 = _wrap([%a0, %a1], "fz_pair", "m", [3], [], f32, requires_grad=true)
  %a3 = tensor([5, 6, 7], f32)
  %a4 = _wrap([%a3, %a1], "fz_pair", "", [3], [], f32)
  call @f(%a4, %a2) module=train
  backward seed=3
}
