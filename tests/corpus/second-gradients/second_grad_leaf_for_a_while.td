# Gradients of gradients where an input requires grad for a while.

func @f(%p0: f32[] @0) {
  requires_grad_(%p0, true)
  %v4 = randint(-1, 1, [1,1], f32)
  copysign_(%v4, %p0)
  detach_(%p0)
  return %v4
}
case "seed 78025170" {
  %a0 = randint(-1, 1, [], i64,)
  %a1 = asin(%a0)
  call @f(%a1)
  backward %out.0 create_graph=true
}
