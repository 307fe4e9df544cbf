# A view is a leaf of its own, and another result depends on it.

func @f(%p0: f32[1,1]) {
  %v1 = permute(%p0, [0,-1])
  requires_grad_(%v1)
  %v12 = permute(%v1, [0,-1])
  return %v1, %v12
}
case "leaf view used" {
  %a0 = full([1,1], 1, f32)
  call @f(%a0)
  backward
}
