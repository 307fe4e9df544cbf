# A hook clones a saved view of a tensor of a type: strides of its own differ, those of its
# inner tensors are as traced.

func @f(%p0) {
  %v0 = sin(%p0)
  %v1 = mul(%v0, %p0)
  return %v1
}
case "hooks give a saved view other strides" {
  %a2 = full([3,4], 2, f32)
  %a3 = full([], 0.25, f32)
  %a4 = _wrap([%a2, %a3], "fz_rounded", "m", [3,4], [], f32, requires_grad=true)
  %a22... = hsplit_indices(%a4, [3,1])
  call @f(%a22.2) hooks=clone
  backward create_graph=true
}
