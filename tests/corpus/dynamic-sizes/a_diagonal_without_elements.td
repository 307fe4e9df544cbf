# A size that is 0 by a guard: the bytes of its result are none, not less than that.

func @f(%p0: i8[2,2,3]) {
  %v3 = diagonal(%p0, -2, -3, 2)
  %v4 = to(%v3, f32, false)
  return  %v4
}
case "a_diagonal_without_elements" {
  %a0 = randint(-3, 2, [2,2,3], i8,)
  call @f(%a0)
}
