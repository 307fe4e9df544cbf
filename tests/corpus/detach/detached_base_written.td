# A view keeps requiring grad when its base was detached and then written.

func @f(%p0: f32[2] @0, %p1: f32[2] @0) {
  copy_(%p0, %p0)
  %v8 = _scale(%p1, 2)
  return  %v8
}
case "seed 100085384" {
  %a0 = randn([2], f32, seed=28, requires_grad=true)
  %a1 = squeeze_dim(%a0, -1)
  detach_(%a0)
  call @f(%a0, %a1)
  call @f(%a0, %a1)
  backward
}
