# No gradient depends on an argument, a view whose grad_fn eager fails to compute.

func @f( %p1: f32[2,3], %p2: f32[2,2,3]) {
  %v5 = randn([], f32)
  %v6 = linear(%p1, %p1, %v5)
  no_grad {
    %v23 = randint(-3, 2, [2,2,3], i64)
    addcdiv_(%p2, %v23, %v5, 1.0)
  }
  return %v6
}
case "seed 77029749" {
  %a0 = tensor([3, 1, 0, -1, 0, 2, 1, -1, 0, 3, 2, 1], f32, [2,2,3], requires_grad=true)
  %a1 = randint(-3, 2, [2,3], f32, seed=70, requires_grad=true)
  no_grad {
    %a2 = expand_as(%a0, %a0)
  }
  call @f( %a1, %a2)
  backward create_graph=true
}
