# A view becomes a leaf, is used, and its base is detached.

func @f( %p1: f32[3,3], %p2: f32[1,3,3]) {
  requires_grad_(%p1)
  %v4 = group_norm(%p1, 3)
  detach_(%p2)
  return  %v4
}
case "seed 100016390" {
  %a0 = tensor([-1, -1, 1, 0, 0, -1, 1, 0, 0], f32, [1,3,3], requires_grad=true)
  no_grad {
    %a1 = squeeze(%a0)
  }
  call @f( %a1, %a0)
  backward
}
