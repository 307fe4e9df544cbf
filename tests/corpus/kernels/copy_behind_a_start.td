# A copy that keeps the place of its argument is not made by loops, which begin at 0.

func @f() {
  %a = full([2], 1, f32)
  %b = select(%a, 0, 1)
  square_(%b)
  %c = as_strided(%b, [1], [1], none)
  floor_divide_(%c, -1.5)
  return %a
}

case "seen from the start of its storage" {
  call @f()
}
