# A view of a stale view, made before the history of the base ended.

func @f(%p0: f32[2] @0, %p1: f32[1,2] @0) {
  no_grad {
    clamp_min_(%p0, %p0)
  }
  %v14 = ravel(%p0)
  detach_(%p1)
  return  %v14
}
case "seed 83018186" {
  %a0 = tensor([1, 2], f32, [1,2], requires_grad=true)
  %a1 = reshape(%a0, [2])
  call @f(%a1, %a0)
  backward
}
