# Another argument, of nested types, changed its metadata before a write to what both have.

func @f(%p0: f32[3,1] of fz_pair("m", f32[3,1], f32[3,1] of fz_rounded("", f32[3,1], f32[])) @0, %p2: f32[3] of fz_pair("m", f32[3], f32[3] of fz_rounded("", f32[3], f32[])) @0) {
  t_(%p0)
  %v0 = nextafter_(%p2, %p2)
  return 
}
case "seed 2230091985" {
  %a3 = tensor([1, 1, 3], f32, [3,1])
  %a4 = randn([3,1], f32,)
  %a7 = _wrap([%a3, %a4], "fz_pair", "m", [3,1], [], f32)
  %a8 = ravel(%a7)
  call @f(%a7, %a8)
}
