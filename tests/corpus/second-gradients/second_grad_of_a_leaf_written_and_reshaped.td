# A leaf and its geometry are written; gradients of its gradients.

func @written(%p: f32[2,3]) {
  no_grad {
    mul_(%p, 2.0)
    t_(%p)
  }
  %y = tanh(%p)
  return %y
}
case "written" {
  %a = randn([2,3], seed=1, requires_grad=true)
  call @written(%a)
  backward create_graph=true
  %g = grad %a
  backward %g
}
