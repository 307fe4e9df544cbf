# A gradient of zeros that passed a comparison in place requires grad, as eager's does.

func @f(%p0: f32[1,1] @0) {
  %v0 = randint(0, 1, [1,1,1,1], bool)
  %v1 = where(%v0, 1, %p0)
  %v2 = _expand_reduced(%v1, [1,1,1,1], none, false)
  gt_(%v2, %p0)
  %v6 = threshold_(%v2, 2.0, -1)
  return %v6
}
case "seed 74037151" {
  %a0 = randn([1,1], f32, seed=37, requires_grad=true)
  call @f(%a0)
  backward create_graph=true
  %g0 = grad %a0
}
