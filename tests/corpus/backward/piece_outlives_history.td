# A result is one of several views of a tensor that is written and then detached: the view is stale.

func @f(%p0: f32[1,1,1] @0) {
  %v1 = addcmul(%p0, %p0, %p0, 1)
  %v9... = split(%v1, 1, 0)
  tan_(%v1)
  detach_(%v1)
  return %v9.0
}
case "piece outlives history" {
  %a0 = full([1,1,1], 0, f32, requires_grad=true)
  call @f(%a0)
}
