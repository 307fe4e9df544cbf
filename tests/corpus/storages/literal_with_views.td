# Views of a literal share its storage, also when printed and parsed.

func @f() {
  %c = tensor([0, 2], f32, [2])
  %v = unsqueeze(%c, 0)
  unsqueeze_(%c, 0)
  return %v
}

case "a view and a write of geometry" {
  call @f()
}
