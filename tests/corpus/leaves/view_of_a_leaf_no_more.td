# A view of a leaf that was written and no longer requires grad.

func @f(%p0: f32[3,3,3,3] @0, %p1: f32[3,3,3,3] @0) {
  no_grad {
    gelu_(%p0)
  }
  %v1 = bernoulli_p(%p0)
  %v2 = requires_grad_(%p1, false)
  return  %p0
}
case "view of a leaf no more" {
  %a0 = full([3,3,3,3], 1, f32, requires_grad=true)
  %a1 = squeeze_dims(%a0, [1,3,0,-2])
  call @f(%a1, %a0)
  backward
}
