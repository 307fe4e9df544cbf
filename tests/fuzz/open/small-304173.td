# seed 304173: compiled: line 8: %out.0: element 0 is 1, compiled 0

func @f() {
  %v9 = full([1], 1, i64)
  %v10 = ravel(%v9)
  %v13 = set_(%v9, %v9, 1, [1])
  return %v10, %v9
}
case "seed 304173" {
  call @f()
}
