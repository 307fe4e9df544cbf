# Views of a leaf that requires no gradient any more, or is detached.

func @f(%p0: f32[4] @0, %p1: f32[2,1,1,2] @0) {
  requires_grad_(%p1, false)
  %v8 = mul(%p0, %p0)
  return  %v8
}
case "1" {
  %a0 = randn([2,1,1,2], f32, seed=24, requires_grad=true)
  %a2 = ravel(%a0)
  call @f(%a2, %a0)
  backward create_graph=true
}
func @g(%p0: f32[4], %p1: f32[2,1,1,2]) {
  detach_(%p1)
  %v8 = mul(%p0, %p0)
  return  %v8
}
case "2" {
  %a0 = randn([2,1,1,2], f32, seed=24, requires_grad=true)
  %a2 = ravel(%a0)
  call @g(%a2, %a0)
  backward create_graph=true
}
