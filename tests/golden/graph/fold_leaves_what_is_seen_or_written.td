# an output must be fresh in every call; a written constant is none; draws stay
# run: infer fold dce
func @f(%x: f32[3]) {
  %c = tensor([1.0, 2.0, 3.0], f32)
  %u = mul(%c, 2.0)
  %b = zeros([3])
  add_(%b, 1.0)
  %d = mul(%b, 2.0)
  %r = rand([3])
  %s = mul(%r, 2.0)
  %o = ones([3])
  %p = neg(%o)
  return %u, %d, %s, %p
}
---
func @f(%x: f32[3]) {
  %c = tensor([1.0, 2.0, 3.0], f32, [3])
  %u = mul(%c, 2.0) : f32[3]
  %b = zeros([3]) : f32[3] @0
  add_(%b, 1.0) : f32[3] @0
  %d = mul(%b, 2.0) : f32[3]
  %r = rand([3]) : f32[3]
  %s = mul(%r, 2.0) : f32[3]
  %p = full([3], -1.0, f32) : f32[3]
  return %u, %d, %s, %p
}
