# A written view whose base becomes a leaf.

func @f(%p0: f32[2,2] @0, %p1: f32[2,2] @0) {
  div_(%p1, -1, "floor")
  unsqueeze_(%p0, -2)
  requires_grad_(%p1, true)
  return
}
case "base becomes leaf" {
  %a0 = full([2,2], 1, f32)
  %a1 = squeeze(%a0)
  call @f(%a1, %a0)
}
