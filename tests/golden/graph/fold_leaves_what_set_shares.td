# after set_ a constant is written under the name of an argument, and the caller has it
# run: infer fold
func @f(%x: f32[2], %y: f32[2]) {
  %c = full([2], 1.0, f32)
  %s = set_(%x, %c)
  sinh_(%x)
  %d = neg(%c)
  %t = tensor([1.0, 2.0], f32)
  %e = neg(%t)
  %u = set_(%y, %e)
  return %d
}
---
func @f(%x: f32[2] @0, %y: f32[2] @1) {
  %t = tensor([1.0, 2.0], f32, [2])
  %c = full([2], 1.0, f32) : f32[2]
  %s = set_(%x, %c) : f32[2] @0
  sinh_(%x) : f32[2] @0
  %d = neg(%c) : f32[2]
  %e = neg(%t) : f32[2]
  %u = set_(%y, %e) : f32[2] @1
  return %d
}
