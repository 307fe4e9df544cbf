# A dtype view of a value that has another offset after a write.

func @line(%p: f16[5]{1}+1 @0) {
  %v0 = slice(%p, 0, 1)
  %v1 = view_dtype(%v0, f32)
  add_(%p, 1)
  mul_(%v1, 1)
  return
}
case "line" {
  %a = tensor([1, 3, 1, 2, 4, 5], f16, [6])
  %b = slice(%a, 0, 1)
  call @line(%b)
}
func @wide(%p: f16[5]{1}+1 @0) {
  %e = expand(%p, [3,5])
  %v0 = slice(%e, 1, 1)
  %v1 = view_dtype(%v0, f32)
  add_(%p, 1)
  %y = mul(%v1, 1)
  return %y
}
func @gaps(%p: f16[2,5]{6,1}+1 @0) {
  %v0 = slice(%p, 1, 1)
  %v1 = view_dtype(%v0, f32)
  add_(%p, 1)
  mul_(%v1, 1)
  return %v1
}
case "expanded" {
  %a = tensor([1, 3, 1, 2, 4, 5], f16, [6])
  %b = slice(%a, 0, 1)
  call @wide(%b)
}
case "gaps" {
  %a = tensor([1, 3, 1, 2, 4, 5, 7, 8, 9, 10, 11, 12], f16, [2,6])
  %b = slice(%a, 1, 1)
  call @gaps(%b)
}
