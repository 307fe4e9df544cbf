# Refused where a result has too few elements: bytes that values decide have to suffice.

func @f(%p0: f32[2,2]) {
  %v12 = nonzero(%p0)
  resize_(%v12, [2])
  return %v12
}
func @g(%p0: f32[2,2]) {
  %v12 = nonzero(%p0)
  resize_(%v12, [9])
  return %v12
}
case "enough" {
  %a = tensor([0,1,1,1], f32, [2,2])
  call @f(%a)
}
case "nothing there" {
  %a = full([2,2], 0, f32)
  call @f(%a)
}
case "never enough" {
  %a = full([2,2], 1, f32)
  call @g(%a)
}
