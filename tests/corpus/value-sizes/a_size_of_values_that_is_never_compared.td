# Eager fails, and so does a capture: the check of a size is the last thing the program does, and nothing is recorded behind it.
func @f(%p0: i64[2,2,2] @0) {
  %v1 = logical_or(%p0, %p0) prefer_save 1
  %v6 = randint(0, 2, [2,2], bool)
  %v7 = masked_select(%v6, %v1)
  %v12 = sum_to_size(%v7, [6]) prefer_recompute 2
  return 
}
func @g(%q0: bool[6], %q1: bool[6]) {
  return 
}
case "a_size_of_values_that_is_never_compared" {
  %a0 = randint(0, 2, [2,2,2], i64,)
  call @f(%a0) autocast=bf16
}
