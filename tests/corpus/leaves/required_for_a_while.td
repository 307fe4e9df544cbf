# A leaf that requires grad inside only takes no gradient.

func @f(%p0) {
  %v6 = requires_grad_(%p0)
  %v7 = reciprocal(%p0)
  requires_grad_(%v6, false)
  return  %v7
}
case "required for a while" {
  %a0 = tensor([-2, -1, 1, 3, 0, 1, 0, -1, 1, -2, 0, 1], f32, [3,2,2])
  call @f(%a0)
  backward
}
