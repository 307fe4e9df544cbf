# A view of a tensor that set_ has moved within its bytes.

func @f() {
  %v9 = full([1], 1, i64)
  %v10 = ravel(%v9)
  %v13 = set_(%v9, %v9, 1, [1,1])
  return %v10, %v9
}
case "set grown" {
  call @f()
}
