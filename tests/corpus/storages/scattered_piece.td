# A write through another view counts from the start of the storage.

func @f(%p0, %p1) {
  %v0 = clone(%p0, false)
  bitwise_xor_(%p1, %p1)
  return %v0
}
case "scattered piece" {
  %a0 = tensor([2, -2], i16, [2])
  %a2... = unbind(%a0, -1)
  %a3 = flatten(%a2.1, 0, -1)
  call @f(%a3, %a2.1)
}
