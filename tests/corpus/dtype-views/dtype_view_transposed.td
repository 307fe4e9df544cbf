# A write through a transposed view of other bits.

func @f() {
  %v6 = randint(0, 2, [2,2,2], i64)
    %v10 = view_dtype(%v6, i32)
  %v13 = swapaxes(%v10, -2, 2)
  %v14 = tril_(%v13)
  return 
}
case "found" {
  call @f()
}
