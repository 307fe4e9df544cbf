# A capture did not count writes in the versions of inner tensors: eager refuses the stale view of split.

func @f( %p1: f32[1], %p3: f32[2] of fz_pair("", f32[2] of fz_rounded("", f32[2], f32[]), f32[2])) {
  add_(%p3, 1, 0.75)
  %v6 = mul(%p1, 2)
  return 
}
case "seed 2310185385" {
  %a1 = tensor([-2, -1], f32, [2], requires_grad=true)
  %a5 = tensor([-2, 0], f32, [2])
  %a8 = _wrap([%a5, %a1], "fz_pair", "", [2], [], f32)
  %a9... = chunk(%a1, 2, 0)
  call @f( %a9.1, %a8)
}
