# the gradients of a weight that four steps read: one product, transposed once, and one sum
# run: infer gather cse dce functional
func @f(%a: f32[2,64], %b: f32[3,64], %c: f32[2,64], %d: f32[2,64], %x: f32[2,32], %y: f32[3,32], %z: f32[2,32], %w: f32[2,32]) {
  %a.t = t(%a)
  %b.t = t(%b)
  %c.t = t(%c)
  %d.t = t(%d)
  %p = mm(%a.t, %x)
  %q = mm(%b.t, %y)
  %r = mm(%c.t, %z)
  %s = mm(%d.t, %w)
  %pq = add(%p, %q)
  %pqr = add(%pq, %r)
  %all = add(%pqr, %s)
  %a.sum = sum(%a, [0], true)
  %b.sum = sum(%b, [0], true)
  %c.sum = sum(%c, [0], true)
  %d.sum = sum(%d, [0], true)
  %a.row = view(%a.sum, [64])
  %b.row = view(%b.sum, [64])
  %c.row = view(%c.sum, [64])
  %d.row = view(%d.sum, [64])
  %e = add(%a.row, %b.row)
  %f = add(%e, %c.row)
  %g = add(%f, %d.row)
  return %all, %g
}
---
func @f(
    %a: f32[2,64],
    %b: f32[3,64],
    %c: f32[2,64],
    %d: f32[2,64],
    %x: f32[2,32],
    %y: f32[3,32],
    %z: f32[2,32],
    %w: f32[2,32]) {
  %8 = cat([%d, %c, %b, %a]) : f32[9,64] @0
  %9 = t(%8) : f32[64,9]{1,64} @0
  %10 = cat([%w, %z, %y, %x]) : f32[9,32]
  %all = mm(%9, %10) : f32[64,32]
  %12 = sum(%8, [0], true) : f32[1,64] @1
  %g = view(%12, [64]) : f32[64] @1
  return %all, %g
}
