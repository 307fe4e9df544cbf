# One tensor is passed twice, and its geometry is written with gradients and under no_grad.

func @f(%p0: f32[2,1] @0, %p1: f32[2,1] @0) {
  unsqueeze_(%p0, 0)
  no_grad {
    squeeze_dims_(%p1, [-1,0,1])
  }
  return  %p0
}
case "seed 200132845" {
  %a1 = randint(-2, 2, [2,1], f32, seed=6, requires_grad=true)
  %a6 = randint(0, 1, [2,1], i64,)
  %a7 = scatter_add(%a1, 0, %a6, %a1)
  call @f(%a7, %a7)
  backward
}
