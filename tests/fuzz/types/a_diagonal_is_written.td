# copy_ between tensors of one type gave a plain one.

func @f( %p1: f32[1,1] of fz_diag("m", f32[1]) @1) {
  neg_(%p1)
  return 
}
case "seed 1197" {
  %a8 = full([1], 1, f32)
  %a9 = _wrap([%a8], "fz_diag", "m", [1,1], [], f32)
  call @f( %a9)
}
