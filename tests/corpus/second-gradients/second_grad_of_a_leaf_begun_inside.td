# The gradient of a gradient reaches an argument that came to require grad in the call.

func @f(%p0) {
  %v8 = requires_grad_(%p0, true)
  %v21 = tensor([3, 2, 1, -1, 2, 2], f32, [3,1,2])
  addcmul_(%v21, %p0, %p0, 1) prefer_recompute 1
  return %v21
}
case "second grad of a leaf begun inside" {
  %a0 = tensor([0], f32, [])
  call @f(%a0)
  backward create_graph=true
  %g0 = grad %a0
  backward %g0
}
