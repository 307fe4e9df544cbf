# The backward of a result of a type was traced for a gradient of that type, which refuses an op of it.

func @f(%p0: f32[2,1,3] of fz_rounded("", f32[2,1,3], f32[]) grad) {
  %v2 = unsqueeze_copy(%p0, -1)
  return %v2
}
case "a plain gradient" {
  %a1 = randint(-3, 4, [2,1,3], f32, seed=75)
  %a5 = full([], 0.25, f32)
  %a6 = _wrap([%a1, %a5], "fz_rounded", "", [2,1,3], [], f32, requires_grad=true)
  call @f(%a6)
  backward seed=1
}
