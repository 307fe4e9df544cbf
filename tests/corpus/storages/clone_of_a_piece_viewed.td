# A clone of a slice has offset 0, and the offsets of its views count from there.
func @f(%p1: f32[6]) {
  %x = mul(%p1, 2.0)
  %v0 = slice(%x, 0, 3, 6)
  %v2 = clone(%v0, false)
  %v5 = as_strided(%v2, [2], [1], 1)
  %s = add(%v5, 1.0)
  return %s
}
case "clone of a piece" {
  %a2 = arange(0, 6, 1, f32)
  call @f(%a2)
}
