# A view is returned that is older than the last write to its base. When the base becomes a leaf
# that requires grad, the view takes a history from it.

func @f(%p: f32[1]) {
  %v = t(%p)
  lerp_(%p, %p, -1)
  %w = expand(%v, [1,-1])
  return %w, %v
}

func @g(%q: f32[1]) {
  requires_grad_(%q)
  return
}

case "the argument becomes a leaf afterwards" {
  %a = randint(-1, 1, [1], f32, seed=5)
  call @f(%a)
  %y... = call @g(%a)
}
