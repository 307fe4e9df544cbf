# A type gave the whole tensor as a plain one after a view of it was written. The value is put into
# the inner tensors.

func @f(%p0: f32[2,1] of fz_rounded("m", f32[2,1], f32[]), %p1: f32[1,2] of fz_rounded("m", f32[1,2], f32[])) {
  tan_(%p1)
  %v12 = _inner(%p0, 0)
  return 
}
case "seed 1790" {
  %a3 = full([1,2], 1, f32)
  %a4 = full([], 0.25, f32)
  %a5 = _wrap([%a3, %a4], "fz_rounded", "m", [1,2], [], f32)
  %a6 = t(%a5)
  call @f(%a6, %a5)
}
