# A second backward passes through nodes that the first one did not reach.

func @f(%p0: f32[5], %p1: f32[]) {
  exponential_(%p0)
  %v0, %v1, %v2 = unique(%p0, false)
  %v6 = randint(-2, 2, [], f32)
  %v7 = mul(%p1, %v6)
  return %p0, %v7
}
case "seed 100050490" {
  %a1 = randint(-2, 2, [1], f32, seed=53, requires_grad=true)
  %a2 = randint(-2, 2, [], f32, seed=1, requires_grad=true)
  %a3 = constant_pad_nd(%a1, [2,2], -0.25)
  call @f(%a3, %a2)
  backward
  call @f(%a3, %a2)
  backward
}
