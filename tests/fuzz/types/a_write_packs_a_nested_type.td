# A write to a pair packs its inner tensor, in compiled code too.

func @f(%p0: f32[2,1,2] of fz_pair("m", f32[2,1,2], f32[2,1,2] of fz_rounded("", f32[2,1,2], f32[]))) {
  log1p_(%p0)
  %v2 = mish_backward(%p0, %p0)
  return %v2
}

case "a write packs a nested type" {
  %a2 = randn([2,1,2], f32, seed=1)
  %a3 = tensor([2, 2, -1, -2], f32, [2,1,2])
  %a4 = full([], 0.25, f32)
  %a5 = _wrap([%a3, %a4], "fz_rounded", "", [2,1,2], [], f32)
  %a6 = _wrap([%a2, %a5], "fz_pair", "m", [2,1,2], [], f32)
  call @f(%a6)
}
