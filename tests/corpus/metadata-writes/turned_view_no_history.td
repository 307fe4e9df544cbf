# A view made after detach_ has no history, whatever becomes of the base.

func @f(%p0: f32[2,2]) {
  detach_(%p0)
  %v13 = diagonal(%p0, -1)
  t_(%p0)
  return %v13
}
case "turned view no history" {
  %a0 = randint(-2, 1, [2,2], f32, seed=58, requires_grad=true)
  call @f(%a0)
}
