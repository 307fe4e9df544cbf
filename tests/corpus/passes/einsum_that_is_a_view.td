# einsum may give a view of its operand, and so do dropout without anything to drop and diff of
# order 0: passes must not make another tensor of the result.

func @f() {
  %a = full([1,1], 0, f32)
  %b = einsum("ij->ji", [%a])
  %c = dropout(%a, 0.5, false)
  %d = diff(%a, 0)
  return %b, %c, %d, %a
}

case "all four share bytes" {
  call @f()
}
