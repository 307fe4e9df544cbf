# A checkpoint region in the function detaches in place a tensor that an op of it has saved: backward reads the tensor as it was before, with its grad_fn
func @f(%p: f32[2]) {
  %u = sin(%p) prefer_recompute 1
  %v = sin(%u) prefer_recompute 1
  %w = detach_(%u) prefer_recompute 1
  return %v
}
case "first gradients" {
  %a = tensor([0.5, 0.25], f32, [2], requires_grad=true)
  call @f(%a) checkpoint=true
  backward
}
case "gradients of gradients" {
  %a = tensor([0.5, 0.25], f32, [2], requires_grad=true)
  call @f(%a) checkpoint=true
  backward create_graph=true
}
