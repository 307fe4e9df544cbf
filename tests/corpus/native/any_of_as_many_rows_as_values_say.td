# In native code, any of no elements was true where their number depends on values.

func @f() {
  %v0 = full([1], 0, f32)
  %v2 = nonzero(%v0)
  %v24 = any(%v2, none, true)
  return  %v24
}
func @g(%q0: bool[1,1]) {
  return 
}
case "any of none" {
  call @f()
inference {
}
}
