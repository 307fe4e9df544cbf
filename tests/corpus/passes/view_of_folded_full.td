# A view of a folded constant still shares its storage.

func @f() {
  %a = full([1,1,1], 0, f32)
  %b = reshape(%a, [1,1])
  %c... = split(%a, 1)
  return %b, %a, %c.0
}

case "base and views returned" {
  call @f()
}
