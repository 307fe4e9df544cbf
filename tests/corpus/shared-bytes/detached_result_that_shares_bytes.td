# Two results share bytes, and one of them, a view of the other, is detached in place later.

func @f(%p: f32[1]) {
  %a = randint(-1, 1, [], f32)
  %v = view(%a, [])
  return %v, %a
}

func @g(%q: f32[]) {
  detach_(%q)
  return
}

case "the base of the other result is detached in place" {
  %p = full([1], 1, f32, requires_grad=true)
  call @f(%p)
  %y... = call @g(%out.1)
}
