# run: to_forward
# The layer of docs/explain.md: a written input, two results that share storage.
func @layer(%x: f32[4,3], %w: f32[3,2] grad, %seen: f32[]) {
  add_(%seen, 1.0)
  %h = matmul(%x, %w)
  %y = tanh(%h)
  %t = transpose(%y, 0, 1)
  return %y, %t
}
---
func @layer_forward(%x: f32[4,3], %w: f32[3,2] grad, %seen: f32[]) {
  %3 = add(%seen, 1.0) : f32[]
  %4 = mm(%x, %w) : f32[4,2]
  %5 = tanh(%4) : f32[4,2]
  return %3 <update 2>, %5
}
