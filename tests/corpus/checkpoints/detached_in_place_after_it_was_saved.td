# Refused: a compiled function, called in a checkpoint, detaches in place a tensor that an op of it has saved; eager recomputes the region up to the saved value and gets the tensor as it was before
func @f(%p0: f32[1,1,1,1] @0) {
  %v0, %v1 = linalg_slogdet(%p0)
  %v2 = erfinv(%v0)
  %v5 = detach_(%v0)
  return %v2
}
case "a saved argument is detached in place" {
  %a0 = randint(-1, 1, [1,1,1,1], f32, seed=31, requires_grad=true)
  call @f(%a0) checkpoint=true
  backward %out.0 create_graph=true
}
func @g(%p: f32[2]) {
  %u = sin(%p)
  %v = sin(%u)
  %w = detach_(%u)
  return %v
}
case "first gradients" {
  %a = tensor([0.5, 0.25], f32, [2], requires_grad=true)
  call @g(%a) checkpoint=true
  backward
}
case "outside of a checkpoint eager fails" {
  %a = tensor([0.5, 0.25], f32, [2], requires_grad=true)
  call @g(%a)
  backward
}
