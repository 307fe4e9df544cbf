# Another slice of a larger tensor than was compiled for, read as another dtype: the view shifts by as many bytes, not elements.
func @f(%p0: f64[1,2,2]{4,2,1}+4 @0) {
  %v0 = view_dtype(%p0, i32)
  %v5 = neg(%v0)
  return %v5
}
case "a slice, then a copy of it" {
  %a1 = tensor([1, -1, 3, 2, -1, -1, -1, 0], f64, [2,2,2])
  %a2... = vsplit(%a1, 2)
  call @f(%a2.1)
  %b0 = clone(%a2.1)
  call @f(%b0)
}
