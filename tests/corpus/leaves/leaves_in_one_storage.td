# A view becomes a leaf of its own, and then its base becomes one.

func @f(%p1: f32[2,2]{2,0}+1 @0, %p2: f32[2,2] @0, %p3: f32[2,2] @0, %p4: f32[2,2] @0) {
  %v0 = requires_grad_(%p1, true)
  %v1 = squeeze_(%p3)
  %v4 = einsum("ii->i", [%v0])
  %v5 = requires_grad_(%v1)
  return %v1, %v4
}
case "leaves in one storage" {
  %a0 = full([2,2], 1, f32)
  %a2 = as_strided(%a0, [2,2], [2,0], 1)
  call @f(%a2, %a0, %a0, %a0)
  backward
}
