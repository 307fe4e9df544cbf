# Zero gradients have history in eager, through the views that were written.

func @f(%p0: f32[2], %p1: f32[1]) {
  %v3 = add_(%p0, %p1)
  %v9 = round_(%p0)
  %v10 = hardsigmoid_(%v9)
  return %v3
}
case "c" {
  %a0 = randn([3], f32,)
  %a1 = full([1], 1, f32, requires_grad=true)
  %a2 = slice(%a0, 0, none, 2, 1)
  call @f(%a2, %a1)
  backward create_graph=true
  %g0 = grad %a1
}
case "d" {
  %a0 = randn([3], f32,)
  %a1 = full([1], 1, f32, requires_grad=true)
  %a2 = slice(%a0, 0, none, 2, 1)
  call @f(%a2, %a1)
  backward %a0 create_graph=true
  %g0 = grad %a1
}
