# run: functionalize functional
# Inputs in one storage: those that overlap are put together only when written.

func @row_and_whole(%r: f32[3]+3 @0, %x: f32[4,3] @0) {
  add_(%r, 1.0)
  %y = mul(%x, 2.0)
  return %y
}

func @partly(%a: f32[6] @0, %b: f32[6]+3 @0) {
  mul_(%a, 2.0)
  add_(%b, 1.0)
  %y = add(%a, %b)
  return %y
}

func @apart(%a: f32[2,3] @0, %b: f32[2,3]+6 @0) {
  mul_(%a, 3.0)
  mul_(%b, 2.0)
  %y = add(%a, %b)
  return %y
}

func @columns(%a: f32[4,2]{4,2} @0, %b: f32[4,2]{4,2}+1 @0) {
  mul_(%a, 3.0)
  mul_(%b, 2.0)
  %y = add(%a, %b)
  return %y
}

func @unwritten(%a: f32[6] @0, %b: f32[6]+3 @0) {
  %y = mul(%a, %b)
  return %y
}
---
func @row_and_whole(%r: f32[3]+3 @0, %x: f32[4,3] @0) {
  %2 = add(%r, 1.0) : f32[3]
  %3 = as_strided_scatter(%x, %2, [3], [1], 3) : f32[4,3]
  %4 = mul(%3, 2.0) : f32[4,3]
  return %2 <update 0>, %4
}

func @partly(%a: f32[6] @0, %b: f32[6]+3 @0) {
  %2 = mul(%a, 2.0) : f32[6]
  %3 = as_strided(%a, [9], [1], 0) : f32[9] @0
  %4 = as_strided_scatter(%3, %2, [6], [1], 0) : f32[9] @1
  %5 = as_strided(%4, [6], [1], 3) : f32[6]+3 @1
  %6 = add(%5, 1.0) : f32[6]
  %7 = as_strided_scatter(%4, %6, [6], [1], 3) : f32[9] @2
  %8 = as_strided(%7, [6], [1], 0) : f32[6] @2
  %9 = add(%8, %6) : f32[6]
  return %2 <update 0>, %6 <update 1>, %9
}

func @apart(%a: f32[2,3] @0, %b: f32[2,3]+6 @0) {
  %2 = mul(%a, 3.0) : f32[2,3]
  %3 = mul(%b, 2.0) : f32[2,3]
  %4 = add(%2, %3) : f32[2,3]
  return %2 <update 0>, %3 <update 1>, %4
}

func @columns(%a: f32[4,2]{4,2} @0, %b: f32[4,2]{4,2}+1 @0) {
  %2 = mul(%a, 3.0) : f32[4,2]
  %3 = mul(%b, 2.0) : f32[4,2]
  %4 = add(%2, %3) : f32[4,2]
  return %2 <update 0>, %3 <update 1>, %4
}

func @unwritten(%a: f32[6] @0, %b: f32[6]+3 @0) {
  %2 = mul(%a, %b) : f32[6]
  return %2
}
