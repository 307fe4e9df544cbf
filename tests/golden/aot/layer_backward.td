# run: to_backward
# The layer of docs/explain.md: a written input, two results that share storage.
func @layer(%x: f32[4,3], %w: f32[3,2] grad, %seen: f32[]) {
  add_(%seen, 1.0)
  %h = matmul(%x, %w)
  %y = tanh(%h)
  %t = transpose(%y, 0, 1)
  return %y, %t
}
---
func @layer_backward(
    %x: f32[4,3] @0 <saved 0>,
    %1: f32[4,2] <saved 1>,
    %t0: f32[4,2] <tangent 0>) {
  %3 = tanh_backward(%t0, %1) : f32[4,2] backward
  %4 = t(%x) : f32[3,4]{1,3} @0 backward
  %5 = mm(%4, %3) : f32[3,2] backward
  return %5 <grad 0>
}
