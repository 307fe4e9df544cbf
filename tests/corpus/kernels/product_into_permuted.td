# A product added in place has the bits of one added out of place.

func @f(%p1: f32[2,2,2] @1, %p3: f32[2,2,2] @2) {
  %v2 = permute(%p3, [-2,2,0])
  baddbmm_(%v2, %p1, %p1, 1, -1.5)
  return
}
case "product into permuted" {
  %a1 = randn([2,2,2], f32)
  %a3 = lerp(%a1, %a1, -2)
  call @f(%a1, %a3)
}
