# run: functionalize functional
# Writes become pure ops; the base of a written view is put together again.

func @in_place(%x: f32[4,3]) {
  mul_(%x, 2.0)
  %y = add(%x, 1.0)
  return %y
}

func @through_views(%x: f32[4,3]) {
  %t = transpose(%x, 0, 1)
  %r = select(%t, 0, 1)
  mul_(%r, 2.0)
  return %r, %x
}

func @unbound(%x: f32[4,3]) {
  %p... = unbind(%x, 0)
  mul_(%p.3, 2.0)
  add_(%x, 1.0)
  return %p.0, %p.3
}

func @through_expand(%x: f32[3]) {
  %e = expand(%x, [5,3])
  %r = select(%e, 0, 3)
  add_(%r, 5.0)
  return %e
}

func @cast_and_broadcast(%x: f32[4,3], %i: i64[3]) {
  copy_(%x, %i)
  %r = select(%x, 0, 0)
  fill_(%r, 2.5)
  return %x
}

func @no_grad(%x: f32[3] grad) {
  no_grad {
    %d = detach(%x)
    mul_(%d, 2.0)
  }
  %y = add(%x, 1.0)
  return %y
}

func @random(%x: f32[3]) {
  uniform_(%x)
  %d = dropout(%x, 0.5, true)
  return %d
}

func @statistics(%x: f32[4,3], %m: f32[3], %v: f32[3]) {
  %y = batch_norm(%x, none, none, %m, %v, true, 0.1, 1e-5)
  return %y
}
---
func @in_place(%x: f32[4,3]) {
  %1 = mul(%x, 2.0) : f32[4,3]
  %2 = add(%1, 1.0) : f32[4,3]
  return %1 <update 0>, %2
}

func @through_views(%x: f32[4,3] @0) {
  %1 = transpose(%x, 0, 1) : f32[3,4]{1,3} @0
  %2 = select(%1, 0, 1) : f32[4]{3}+1 @0
  %3 = mul(%2, 2.0) : f32[4]
  %4 = select_scatter(%1, %3, 0, 1) : f32[3,4]{1,3} @1
  transpose(%4, 0, 1) : f32[4,3] @1
  %6 = select(%4, 0, 1) : f32[4]{3}+1 @1
  return %6 <base>
}

func @unbound(%x: f32[4,3] @0) {
  %1, %2, %3, %4 = unbind(%x) : (f32[3] @0, f32[3]+3 @0, f32[3]+6 @0, f32[3]+9 @0)
  %5 = mul(%4, 2.0) : f32[3]
  %6 = select_scatter(%x, %5, 0, 3) : f32[4,3]
  %7 = add(%6, 1.0) : f32[4,3]
  return %7 <update 0>
}

func @through_expand(%x: f32[3] @0) {
  %1 = expand(%x, [5,3]) : f32[5,3]{0,1} @0
  %2 = select(%1, 0, 3) : f32[3] @0
  %3 = add(%2, 5.0) : f32[3]
  %4 = as_strided_scatter(%x, %3, [3], [1], 0) : f32[3] @1
  %5 = expand(%4, [5,3]) : f32[5,3]{0,1} @1
  %6 = select(%5, 0, 3) : f32[3] @1
  return %6 <base>
}

func @cast_and_broadcast(%x: f32[4,3], %i: i64[3]) {
  %2 = copy(%x, %i) : f32[4,3] @0
  %3 = select(%2, 0, 0) : f32[3] @0
  %4 = fill(%3, 2.5) : f32[3]
  %5 = select_scatter(%2, %4, 0, 0) : f32[4,3]
  return %5 <update 0>
}

func @no_grad(%x: f32[3] grad) {
  %1 = mul(%x, 2.0) : f32[3]
  %2 = add(%1, 1.0) : f32[3]
  return %1 <base>, %2
}

func @random(%x: f32[3]) {
  %1 = uniform(%x) : f32[3]
  %2, %3 = native_dropout(%1, 0.5) : (f32[3], bool[3])
  return %1 <update 0>, %2
}

func @statistics(%x: f32[4,3], %m: f32[3], %v: f32[3]) {
  %3, %4, %5, %6, %7 = _batch_norm_functional(%x, none, none, %m, %v, 0.1, 1e-05) : (f32[4,3], f32[3], f32[3], f32[3], f32[3])
  return %6 <update 1>, %7 <update 2>, %3
}
