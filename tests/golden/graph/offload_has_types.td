# run: infer
# Handles and tickets are one number; what is waited for has the layout it is given.
func @f(%x: f32[4,3], %h: i64[1]) {
  %a = exp(%x) must_offload 1
  %b = offload_store(%a, "disk")
  %c = offload_store(%a, "disk", true)
  %d = offload_fetch(%h, 2)
  %e = offload_fetch(%h)
  %f = offload_wait(%d, [4,3], [3,1], f32)
  %g = offload_wait(%e, [3,2], [1,3], bf16)
  return %b, %c, %f, %g
}
---
func @f(%x: f32[4,3], %h: i64[1]) {
  %a = exp(%x) : f32[4,3] must_offload 1
  %b = offload_store(%a, "disk") : i64[1]
  %c = offload_store(%a, "disk", true) : i64[1]
  %d = offload_fetch(%h, 2) : i64[1]
  %e = offload_fetch(%h) : i64[1]
  %f = offload_wait(%d, [4,3], [3,1], f32) : f32[4,3]
  %g = offload_wait(%e, [3,2], [1,3], bf16) : bf16[3,2]{1,3}
  return %b, %c, %f, %g
}
