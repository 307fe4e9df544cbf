# A view from before its base had a history, of a base that is detached later, requires no grad.

func @f(%p0: f32[1]) {
  %v6 = linspace(1.0, 1, 1)
  %v11 = expand_as(%v6, %p0)
  lerp_(%v6, %p0, %v6)
  detach_(%v6)
  return  %v11
}
case "seed 730325394" {
  %a0 = randint(-1, 1, [], f32, seed=62, requires_grad=true)
  %a1 = ravel(%a0)
  call @f(%a1)
}
