# A storage grows to bytes that make no whole number of its first dtype's elements.

func @once() {
  %v1 = randint(-3, 2, [1,1,1], f32)
  %v2 = view_dtype(%v1, u8)
  set_(%v2, %v2, 3, [2,1,1], none)
  return %v2
}
func @twice() {
  %v1 = randint(-3, 2, [1], f32)
  %v2 = view_dtype(%v1, u8)
  set_(%v2, %v2, 3, [2], none)
  add_(%v2, 3)
  set_(%v2, %v2, 3, [4], none)
  add_(%v2, 5)
  set_(%v2, %v2, 1, [10], none)
  return %v2, %v1
}
func @input(%x: u8[4]) {
  resize_(%x, [5])
  add_(%x, 3)
  resize_(%x, [7])
  %y = add(%x, 3)
  return %y
}
case "once" {
  call @once()
}
case "twice" {
  call @twice()
}
case "an input seen as another dtype" {
  %a = full([1], 2, f32)
  %b = view_dtype(%a, u8)
  call @input(%b)
}
