# Dynamic, traced for the sizes at hand: a leaf is written and given other sizes under no_grad, and its gradient has the old ones.

func @f(%p0: f32[6,5], %p1: f32[3]) {
  triu_(%p0, -1)
  no_grad {
    %v4 = randint(0, 2, [3], bool)
    %v5 = masked_scatter_(%p1, %v4, %p0)
    unsqueeze_(%v5, -1)
  }
  return  %v5
}
case "seed 470054809" {
  %a0 = randint(-3, 2, [3,3], f32, seed=76, requires_grad=true)
  %a2 = tensor([2, 1, -1], f32, [3], requires_grad=true)
  %a16 = pad(%a0, [2,0,2,1])
  call @f(%a16, %a2)
  backward
}
