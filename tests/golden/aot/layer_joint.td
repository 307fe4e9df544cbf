# run: to_joint
# The layer of docs/explain.md: a written input, two results that share storage.
func @layer(%x: f32[4,3], %w: f32[3,2] grad, %seen: f32[]) {
  add_(%seen, 1.0)
  %h = matmul(%x, %w)
  %y = tanh(%h)
  %t = transpose(%y, 0, 1)
  return %y, %t
}
---
func @layer(
    %x: f32[4,3] @0,
    %w: f32[3,2] grad,
    %seen: f32[],
    %t0: f32[4,2] <tangent 0>) {
  %4 = clone(%seen) : f32[] must_save 0
  %5 = add(%4, 1.0) : f32[]
  %6 = mm(%x, %w) : f32[4,2]
  %7 = tanh(%6) : f32[4,2]
  %8 = tanh_backward(%t0, %7) : f32[4,2] backward
  %9 = t(%x) : f32[3,4]{1,3} @0 backward
  %10 = mm(%9, %8) : f32[3,2] backward
  return %5 <update 2>, %7, %10 <grad 0>
}
