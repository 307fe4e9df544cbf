# a weight that four products of few rows read is packed once; so is its transpose
# run: infer strips functional
func @f(%x: f32[4,32], %w: f32[32,32]) {
  %a = mm(%x, %w)
  %b = mm(%a, %w)
  %c = mm(%b, %w)
  %d = mm(%c, %w)
  %t = t(%w)
  %e = mm(%d, %t)
  %f = mm(%e, %t)
  %g = mm(%f, %t)
  %h = mm(%g, %t)
  return %h
}
---
func @f(%x: f32[4,32], %w: f32[32,32] @0) {
  %11 = view(%w, [32,2,16]) : f32[32,2,16] @0
  %12 = transpose(%11, 0, 1) : f32[2,32,16]{16,32,1} @0
  %13 = _reshape_copy(%12, [2,32,16]) : f32[2,32,16]
  %a = _mm_strips(%x, %13) : f32[4,32]
  %b = _mm_strips(%a, %13) : f32[4,32]
  %c = _mm_strips(%b, %13) : f32[4,32]
  %d = _mm_strips(%c, %13) : f32[4,32]
  %t = t(%w) : f32[32,32]{1,32} @0
  %14 = view(%t, [32,2,16]) : f32[32,2,16]{1,512,32} @0
  %15 = transpose(%14, 0, 1) : f32[2,32,16]{512,1,32} @0
  %16 = _reshape_copy(%15, [2,32,16]) : f32[2,32,16]
  %e = _mm_strips(%d, %16) : f32[4,32]
  %f = _mm_strips(%e, %16) : f32[4,32]
  %g = _mm_strips(%f, %16) : f32[4,32]
  %h = _mm_strips(%g, %16) : f32[4,32]
  return %h
}
