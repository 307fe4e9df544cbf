# A view made after detach_ has no history, whether or not the base gets one later.

func @f(%p0: f32[2,2]) {
  detach_(%p0)
  %v13 = diagonal(%p0, -1)
  t_(%p0)
  return %v13
}
case "reshaped view of a detached base" {
  %a0 = randint(-2, 1, [2,2], f32, seed=58, requires_grad=true)
  call @f(%a0)
}
