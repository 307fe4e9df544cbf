# A leaf among inputs that share storage; the geometry of another one is written.

func @f(%p0: f32[2,2,1] @0, %p2: f32[2,2,1] @0) {
  %v1 = requires_grad_(%p2, true)
  %v2 = swapaxes(%v1, -1, -2)
  unsqueeze_(%p0, -1)
  %v7... = split(%v2, 1, 0)
  return %v7.1
}
case "seed 60023064" {
  %a0 = randint(-2, 2, [2,2,1], f32,)
  %a1 = slice(%a0, -2, none)
  call @f(%a0, %a1)
  backward
}
