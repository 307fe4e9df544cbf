# A gradient that passed a write of no elements requires grad, as eager's does.

func @f(%p0: f32[0], %p1: f32[1]) {
  %v2 = tensor([], bool, [0])
  %v3 = masked_scatter_(%p0, %v2, %p1)
  %v9 = round_(%p0)
  %v10 = hardsigmoid_(%v9)
  return %v3
}
case "seed 74038960" {
  %a0 = randn([1], f32,)
  %a1 = full([1], 1, f32, requires_grad=true)
  %a2 = slice(%a0, 0, none, 0, 1)
  call @f(%a2, %a1)
  backward create_graph=true
  %g0 = grad %a1
}
