# A leaf among inputs that share storage; set_ moves another one of them.

func @f(%p0: f32[1,1], %p1: f32[1,1]) {
  requires_grad_(%p1, false)
  %v8 = set_(%p1, %p0, 1, [1,1])
  log_(%p0)
  return 
}
case "seed 60024975" {
  %a0 = randint(-1, 1, [1,1], f32, seed=63, requires_grad=true)
  %a1 = transpose(%a0, -1, -1)
  call @f(%a1, %a0)
}
