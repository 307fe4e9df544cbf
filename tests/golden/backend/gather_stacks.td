# a stack shares the copy that a sum over the same rows needs; one that is a result is its own
# run: infer gather cse dce functional
func @f(%a: f32[2,8], %b: f32[2,8], %c: f32[2,8], %d: f32[2,8]) {
  %a.sum = sum(%a, [0], true)
  %b.sum = sum(%b, [0], true)
  %c.sum = sum(%c, [0], true)
  %d.sum = sum(%d, [0], true)
  %a.row = view(%a.sum, [8])
  %b.row = view(%b.sum, [8])
  %c.row = view(%c.sum, [8])
  %d.row = view(%d.sum, [8])
  %e = add(%a.row, %b.row)
  %f = add(%e, %c.row)
  %g = add(%f, %d.row)
  %s = stack([%d, %c, %b, %a], 0)
  %t = exp(%s)
  %r = stack([%a, %b], 0)
  %u = stack([%a, %b], 1)
  %v = exp(%u)
  return %g, %t, %r, %v
}
---
func @f(%a: f32[2,8], %b: f32[2,8], %c: f32[2,8], %d: f32[2,8]) {
  %4 = cat([%d, %c, %b, %a]) : f32[8,8] @0
  %5 = sum(%4, [0], true) : f32[1,8] @1
  %g = view(%5, [8]) : f32[8] @1
  %s = view(%4, [4,2,8]) : f32[4,2,8] @0
  %t = exp(%s) : f32[4,2,8]
  %r = stack([%a, %b]) : f32[2,2,8]
  %u = stack([%a, %b], 1) : f32[2,2,8]
  %v = exp(%u) : f32[2,2,8]
  return %g, %t, %r, %v
}
