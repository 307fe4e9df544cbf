# slice_scatter keeps the offset of its argument, which set_ then gives to the argument, also where it is a symbol.

func @f(%x) {
  lgamma_(%x)
  %y = slice_scatter(%x, %x)
  set_(%x, %y)
  return
}
func @g(%x) {
  sin_(%x)
  %d = diagonal(%x)
  %y = diagonal_scatter(%x, %d)
  return %y
}
case "set_ to the result of slice_scatter of a written view" {
  %a = tensor([-1, 3, -1, 0, 1, 1, 1, -1, 1], f32, [3,3])
  %v... = split(%a, 1, 0)
  call @f(%v.2)
  %b = tensor([2, 3, 5, 0, 1, 4, 1, -1], f32, [2,4])
  %w... = split(%b, 1, 0)
  call @f(%w.1)
}
case "a returned diagonal_scatter of a written view" {
  %a = tensor([-1, 3, -1, 0, 1, 1, 1, -1, 1], f32, [3,3])
  %v... = split(%a, 1, 0)
  call @g(%v.2)
  %b = tensor([2, 3, 5, 0, 1, 4, 1, -1], f32, [2,4])
  %w... = split(%b, 1, 0)
  call @g(%w.1)
}
