# Another argument changed its metadata before a write to inner tensors that both have.

func @f(%p0, %p1) {
  %v0 = unsqueeze_(%p1, 1) must_save 1
  fz_scale_(%p0) must_save 1
  return 
}
func @g(%q0: i64[1], %q1: f32[1,1,1] of fz_rounded("", f32[1,1,1], f32[]), %q2: i64[1]) {
  return 
}
case "seed 2210117684" {
  %a4 = randint(-1, 1, [1,1], f32,)
  %a5 = full([], 0.25, f32)
  %a6 = _wrap([%a4, %a5], "fz_rounded", "", [1,1], [], f32)
  %a7 = unflatten(%a6, -1, [1,1])
  call @f(%a7, %a6)
}
