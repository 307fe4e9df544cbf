# Eager fails, and so does a capture. A size only run time knows must be even; nothing comes after.

func @f() {
  %v9 = randint(-1, 1, [1,1], f16)
  %v11, %v12, %v13 = unique(%v9, false, false)
  %v14 = view_dtype(%v11, f32)
  return 
}
case "seed 79136047" {
  call @f()
}
