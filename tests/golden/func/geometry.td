# run: functionalize functional
# Writes of geometry move outer tensors only; set_ and resize_ move them elsewhere.

func @transposed(%x: f32[4,3]) {
  t_(%x)
  %y = mul(%x, 2.0)
  return %y
}

func @written_and_transposed(%x: f32[4,3]) {
  t_(%x)
  %r = select(%x, 0, 0)
  mul_(%r, 2.0)
  return %x
}

func @cancelled(%x: f32[4,3]) {
  unsqueeze_(%x, 0)
  squeeze_dim_(%x, 0)
  return %x
}

func @moved(%a: f32[3], %b: f32[3]) {
  set_(%a, %b)
  mul_(%b, 2.0)
  %y = add(%a, %b)
  return %y
}

func @moved_back(%a: f32[3], %b: f32[3]) {
  %o = alias(%a)
  set_(%a, %b)
  set_(%a, %o)
  %y = add(%a, %b)
  return %y
}

func @grown(%x: f32[3]) {
  %y = add(%x, 1.0)
  resize_(%y, [5])
  fill_(%y, 2.0)
  return %y
}
---
func @transposed(%x: f32[4,3] @0) {
  %1 = t(%x) : f32[3,4]{1,3} @0
  %2 = mul(%1, 2.0) : f32[3,4]{1,3}
  return %2
}

func @written_and_transposed(%x: f32[4,3] @0) {
  %1 = t(%x) : f32[3,4]{1,3} @0
  %2 = select(%1, 0, 0) : f32[4]{3} @0
  %3 = mul(%2, 2.0) : f32[4]
  %4 = select_scatter(%1, %3, 0, 0) : f32[3,4]{1,3} @1
  t(%4) : f32[4,3] @1
  %6 = select(%4, 0, 0) : f32[4]{3} @1
  return %6 <base>
}

func @cancelled(%x: f32[4,3]) {
  return
}

func @moved(%a: f32[3], %b: f32[3]) {
  %2 = mul(%b, 2.0) : f32[3]
  %3 = add(%2, %2) : f32[3]
  return %2 <update 1>, %3
}

func @moved_back(%a: f32[3], %b: f32[3]) {
  %2 = add(%a, %b) : f32[3]
  return %2
}

func @grown(%x: f32[3]) {
  %1 = add(%x, 1.0) : f32[3]
  %2 = zeros([2], f32) : f32[2]
  %3 = cat([%1, %2]) : f32[5] @0
  %4 = as_strided(%3, [5], [1], 0) : f32[5] @0
  %5 = fill(%4, 2.0) : f32[5]
  as_strided_scatter(%3, %5, [5], [1], 0) : f32[5]
  return %1, %5 <base>
}
