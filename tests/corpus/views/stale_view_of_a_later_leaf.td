# A view was stale before its base became a leaf.

func @f(%p0: f32[1,1,1,1] @0, %p1: f32[1,1,1,1] @0) {
  requires_grad_(%p1, true)
  %v2 = atan(%p0)
  return %v2
}
case "stale view of a later leaf" {
  %a0 = randn([1,1,1,1], f32)
  %a5 = expand_as(%a0, %a0)
  addcmul_(%a0, %a0, %a5, -1.25)
  call @f(%a5, %a0)
  backward
}
