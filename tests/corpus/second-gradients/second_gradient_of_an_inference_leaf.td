# A leaf made in inference mode is saved for double backward with its grad_fn.
func @f( %p1: f32[3,3]) {
  enable_grad {
  }
  %v4 = _reshape_copy(%p1, [9])
  elu_(%v4, 1, -1, -1.0)
  return %v4
}
case "seed 77175504" {
  inference {
    %a2 = randint(-3, 1, [3,3], f32, seed=16, requires_grad=true)
  }
  call @f( %a2)
  backward create_graph=true
  %g0 = grad %a2
  backward %g0
}
