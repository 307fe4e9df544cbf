# A result that is a part of a tensor that is not returned has eager's offset.

func @f() {
  %a = full([1,2], 1.5, f32)
  %b = narrow(%a, 1, -1, 1)
  trunc_(%b)
  return %b
}

func @g(%p: i64[2,2,2,1,1]) {
  %a = slice_scatter(%p, %p, 0)
  add_(%a, 1)
  %b = diagonal(%a)
  return %b
}

case "offset" {
  call @f()
}

case "strides" {
  %a = randint(0, 9, [2,2,2,2], seed=1)
  %b = unfold(%a, 3, 1, 2)
  call @g(%b)
}
