# A view of an input that became a leaf passes no gradient once the geometry of the input was written under no_grad.

func @f(%p0: f32[2,2] @0) {
    %v0 = requires_grad_(%p0, true)
  %v9 = view_as(%v0, %p0)
  no_grad {
    squeeze_dim_(%v0, -2)
  }
  %v14 = cat([%v0, %v9])
  return %v0, %v9
}
case "seed 100148945" {
  %a0 = randint(-2, 2, [2,2], f32,)
  %a1 = movedim(%a0, [1], [1])
  call @f(%a1)
  backward
}
