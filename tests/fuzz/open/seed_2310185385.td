# seed 2310185385: compiled-dynamic: line 11: eager fails (result 1 of split is a view and its base or another view of its base has been modified in place. It comes from an op that returns several views; these may not be written. Write out of place (program.), compiled-dynamic does not

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
