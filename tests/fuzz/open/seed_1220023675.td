# seed 1220023675: compiled-dynamic: line 10: eager works, compiled-dynamic fails: as_strided: sizes [2], strides [1] at offset 0 need 8 bytes, the storage has 6

func @f(%p0: f32[1], %p1: bf16[1], %p4: bf16[3]) {
  floor_(%p0)
  lt_(%p1, 1.25)
  return 
}
case "seed 1220023675" {
  %a0 = randn([3], bf16,)
  %a2... = split_with_sizes(%a0, [2,1], -1)
  %a3 = view_dtype(%a2.0, f32)
  call @f(%a3, %a2.1, %a0)
}
