# Refused: a backward with create_graph reads an argument that began to require grad
# after the op that saved it.

func @f(%p0: f32[1,1,1,1], %p2: f32[]) {
  %v1 = hardswish_backward(%p2, %p0)
  requires_grad_(%p2, true)
  return %v1
}
case "seed 1400006942" {
  %a0 = full([], -1, f32)
  %a2 = full([1,1,1,1], 0, f32, requires_grad=true)
  call @f(%a2, %a0)
  backward create_graph=true
  %g0 = grad %a2
  backward %g0
}
