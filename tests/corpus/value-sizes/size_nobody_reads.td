# A size that is checked outlives the result that has it.

func @f(%p0: f32[1]) {
  %v1 = randint(0, 2, [2,2], bool)
  %v2 = masked_select(%p0, %v1)
  %v4 = expand(%v2, [2,2])
  %v17 = randint(0, 2, [2,1], bool)
  return
}
case "size nobody reads" {
  %a0 = randint(-2, 2, [1], f32, seed=27)
  call @f(%a0)
}
