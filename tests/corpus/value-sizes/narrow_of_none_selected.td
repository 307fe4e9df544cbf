# Eager fails, and so does a capture: one element of those that values select, of which there are none.

func @f(%p0: f32[2] @0) {
  %v9 = randint(0, 2, [2], bool)
  %v10 = masked_select(%p0, %v9)
  %v11 = narrow(%v10, 0, 0, 1)
  return 
}
case "narrow_of_none_selected" {
  %a0 = randint(-2, 2, [2], f32,)
  call @f(%a0)
}
