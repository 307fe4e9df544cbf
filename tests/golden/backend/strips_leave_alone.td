# three products are too few, %w and %u have them before and after a write; many rows,
# columns that make no whole strip, and other dtypes
# run: infer strips
func @f(%x: f32[4,32], %w: f32[32,32], %u: f32[32,32], %m: f32[80,32], %k: f32[32,33], %z: f64[4,32], %v: f64[32,32]) {
  %a = mm(%x, %w)
  %b = mm(%a, %w)
  %c = mm(%b, %w)
  fill_(%w, 0.0)
  %d = mm(%c, %w)
  %e = mm(%m, %u)
  %f = mm(%m, %u)
  %g = mm(%m, %u)
  %h = mm(%m, %u)
  %i = mm(%x, %k)
  %j = mm(%x, %k)
  %l = mm(%x, %k)
  %n = mm(%x, %k)
  %o = mm(%z, %v)
  %p = mm(%z, %v)
  %q = mm(%z, %v)
  %r = mm(%z, %v)
  return %d, %e, %f, %g, %h, %i, %j, %l, %n, %o, %p, %q, %r
}
---
func @f(
    %x: f32[4,32],
    %w: f32[32,32] @0,
    %u: f32[32,32],
    %m: f32[80,32],
    %k: f32[32,33],
    %z: f64[4,32],
    %v: f64[32,32]) {
  %a = mm(%x, %w) : f32[4,32]
  %b = mm(%a, %w) : f32[4,32]
  %c = mm(%b, %w) : f32[4,32]
  fill_(%w, 0.0) : f32[32,32] @0
  %d = mm(%c, %w) : f32[4,32]
  %e = mm(%m, %u) : f32[80,32]
  %f = mm(%m, %u) : f32[80,32]
  %g = mm(%m, %u) : f32[80,32]
  %h = mm(%m, %u) : f32[80,32]
  %i = mm(%x, %k) : f32[4,33]
  %j = mm(%x, %k) : f32[4,33]
  %l = mm(%x, %k) : f32[4,33]
  %n = mm(%x, %k) : f32[4,33]
  %o = mm(%z, %v) : f64[4,32]
  %p = mm(%z, %v) : f64[4,32]
  %q = mm(%z, %v) : f64[4,32]
  %r = mm(%z, %v) : f64[4,32]
  return %d, %e, %f, %g, %h, %i, %j, %l, %n, %o, %p, %q, %r
}
