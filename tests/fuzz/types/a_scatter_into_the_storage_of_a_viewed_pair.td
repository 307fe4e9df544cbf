# The scatter addresses the storage of the whole pair; a traced view of a pair had one of its own size.

func @f( %p1: f32[1,2] of fz_pair("", f32[1,2] of fz_pair("", f32[1,2], f32[1,2]), f32[1,2]) @1) {
  %v0 = diagonal(%p1, 0, -1, 0)
  %v7 = as_strided_scatter(%v0, %v0, [1], [1], 1)
  return 
}
case "seed 1200181073" {
  %a3 = randn([1,2], f32,)
  %a4 = full([1,2], 2, f32)
  %a5 = _wrap([%a3, %a4], "fz_pair", "", [1,2], [], f32)
  call @f( %a5)
}
