# A view that was made before its base became a leaf.

func @f(%p0: f32[2,2] @0) {
  %v2 = diagonal(%p0, -2, 0)
  requires_grad_(%p0)
  return %v2
}
case "view before leaf" {
  no_grad {
    %a2 = randint(-2, 2, [2,2], f32, seed=45, requires_grad=true)
    %a3 = squeeze(%a2)
  }
  call @f(%a3)
  backward
}
