# A result that is detached and becomes a leaf.

func @f(%p2: f32[1]) {
  detach_(%p2)
  %v3 = requires_grad_(%p2, true)
  return
}
case "detached to leaf" {
  %a0 = randn([1], f32, seed=48, requires_grad=true)
  %a2 = to(%a0, f32, true)
  call @f(%a2)
}
