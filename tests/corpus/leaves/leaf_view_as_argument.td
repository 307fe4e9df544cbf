# A view that is a leaf of its own is an argument.

func @f(%p1: f32[1,1]) {
  no_grad {
    requires_grad_(%p1)
    %v16... = chunk(%p1, 1, -1)
  }
  gelu_(%v16.0)
  return
}
case "leaf view as argument" {
  %a0 = randint(-1, 1, [1,1], f32)
  %a2 = randint(-1, 1, [1,1], f32)
  %a3 = reshape_as(%a0, %a2)
  call @f(%a3)
  call @f(%a3)
}
