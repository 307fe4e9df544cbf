# Inputs of several dtypes in one storage: elements that are not written keep their bits.

func @f(%b, %second, %first) {
  add_(%b, 1)
  return
}

case "bytes of the first half" {
  %a = tensor([1, 2, 3, 4], f32, [2,2])
  %h... = chunk(%a, 2, 0)
  %b = view_dtype(%h.0, u8)
  call @f(%b, %h.1, %h.0)
}
