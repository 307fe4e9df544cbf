# Eager refuses it; native code for any size computed with integers. Of no elements it is allowed.
func @f(%x: i64[8]) {
  %y = dropout(%x, 0.5, true)
  return %y
}
case "integers" {
  %a = full([8], 2, i64)
  call @f(%a)
}
case "none" {
  %a = full([0], 2, i64)
  call @f(%a)
}
