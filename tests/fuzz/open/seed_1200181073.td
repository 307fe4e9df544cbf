# seed 1200181073: functional: line 10: eager works, functional fails: as_strided_scatter: sizes [1], strides [1] at offset 1 need 8 bytes, the storage has 4 (tests/fuzz/prog_types.c:36)

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
