# equal elements become full, others a constant of the graph
# run: infer fold dce
func @f(%x: f32[3]) {
  %o = ones([3])
  %t = add(%o, 1.0)
  %c = tensor([1.0, 2.0, 3.0], f32)
  %u = mul(%c, %t)
  %y = mul(%x, %t)
  %z = add(%y, %u)
  return %z
}
---
func @f(%x: f32[3]) {
  %u = tensor([2.0, 4.0, 6.0], f32, [3])
  %t = full([3], 2.0, f32) : f32[3]
  %y = mul(%x, %t) : f32[3]
  %z = add(%y, %u) : f32[3]
  return %z
}
