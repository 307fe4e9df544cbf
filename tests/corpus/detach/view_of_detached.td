# A view keeps its history when its base is detached, also for another call.

func @f(%p0: f32[1], %p1: f32[1]) {
  detach_(%p1)
  %v18 = squeeze_dims(%p0, [0])
  return %v18
}
case "view of detached" {
  %a0 = randn([1], f32, seed=82, requires_grad=true)
  %a2 = view_as(%a0, %a0)
  call @f(%a2, %a0)
  call @f(%a2, %a0)
}
