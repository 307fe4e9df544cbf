# Gradients of gradients where an input is written and then comes to require grad.

func @f(%p0) {
  cosh_(%p0)
  requires_grad_(%p0, true)
  %v8 = _scale(%p0, 2)
  return  %v8
}
case "seed 76043964" {
  %a1 = full([2,2], 2, f32)
  call @f(%a1)
  backward create_graph=true
}
