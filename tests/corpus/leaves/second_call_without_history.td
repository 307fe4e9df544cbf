# The first call detaches its argument; the second call has no history to set.

func @f(%p0: f32[12], %p1: f32[3,2,2]) {
  detach_(%p1)
  %v4 = squeeze_dims(%p0, [0])
  sign_(%p1)
  return
}
case "second call without history" {
  %a0 = randn([3,2,2], f32, seed=39, requires_grad=true)
  no_grad {
    %a1 = ravel(%a0)
  }
  call @f(%a1, %a0)
  call @f(%a1, %a0)
}
