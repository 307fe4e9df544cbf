# Gradients of gradients where an input comes to require grad.

func @f(%p0: f32[], %p2: f32[1]) {
  requires_grad_(%p0)
  %v18 = normal(%p2, 0.0, 0.0)
  return %v18
}
case "seed 76019944" {
  %a0 = randint(-1, 1, [], f32,)
  %a1 = _expand_reduced(%a0, [1], [], false)
  call @f(%a0, %a1)
  backward create_graph=true
}
