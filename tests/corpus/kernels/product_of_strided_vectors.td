# A product of two vectors has the same bits for any strides.

func @f(%p0: f32[2]) {
  %v3 = clamp_(%p0, 1.5) prefer_save 1
  %v7 = randn([2], f32)
  %v8 = dot(%p0, %v7) prefer_recompute 2
  return  %v8
}
case "product of strided vectors" {
  %a0 = tensor([0, 2, 2, -1, 2, -1, 0, 2], f32, [4,2])
  %a1 = diagonal(%a0)
  call @f(%a1)
}
