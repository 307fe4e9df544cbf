# types of all values from those of the inputs
# run: infer
func @f(%x: f32[4,3] grad, %y: f32[3] @4, %z: f32[3] @4) {
  %t = transpose(%x, 0, 1)
  %p... = unbind(%x)
  %v, %i = sort(%p.1)
  %c = to(%i, f64)
  %e = expand(%y, [2,3])
  mul_(%z, 2.0)
  %n = nonzero(%y)
  %after = neg(%n)
  return %t, %v, %c, %e, %after
}
---
func @f(%x: f32[4,3] grad @0, %y: f32[3] @1, %z: f32[3] @1) {
  %t = transpose(%x, 0, 1) : f32[3,4]{1,3} @0
  %p.0, %p.1 = unbind(%x) : (f32[3] @0, f32[3]+3 @0)
  %v, %i = sort(%p.1) : (f32[3], i64[3])
  %c = to(%i, f64) : f64[3]
  %e = expand(%y, [2,3]) : f32[2,3]{0,1} @1
  mul_(%z, 2.0) : f32[3] @1
  %n = nonzero(%y)
  %after = neg(%n)
  return %t, %v, %c, %e, %after
}
