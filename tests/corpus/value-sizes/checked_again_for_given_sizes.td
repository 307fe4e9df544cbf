# debug_asserts replayed a program that is for the sizes of a call without these sizes.

func @f(%p0, %p1, %p2, %p3) {
  pow_(%p1, %p2)
  %v2 = pow(%p0, 1.5)
  %v3, %v4, %v5 = unique(%p0, true)
  return %v3
}

case "seed 91393616" {
  %a0 = randint(-3, 4, [2,2,1], f32, seed=89, requires_grad=true)
  %a1 = tensor([3, 0], f32, [2])
  %a2 = mish(%a0)
  %a3 = lerp(%a2, %a1, %a0)
  %a4 = squeeze_dims(%a1, [-1])
  call @f(%a0, %a3, %a3, %a1) module=eval
  backward seed=8 retain_graph=true
  backward seed=4
  call @f(%a0, %a3, %a3, %a1) module=eval
}
