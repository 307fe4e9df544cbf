# A result that shows elements twice, and a copy of them.

func @f() {
  %v12 = full([2,2,2], 0, bool)
  %v13 = as_strided(%v12, [2,2,2], [2,2,0], 1)
  %v16 = clone(%v12)
  return %v16, %v13
}
case "seed 79190502" {
  call @f()
}
