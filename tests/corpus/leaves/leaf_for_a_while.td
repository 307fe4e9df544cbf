# A value computed from a tensor that required grad only temporarily sends no gradient to it.

func @f(%p0: f32[3]) {
  requires_grad_(%p0)
  %v0 = split_with_sizes_inverse(%p0, %p0, 2, [0,0,0], -1)
  requires_grad_(%p0, false)
  %v5... = split_with_sizes(%v0, [2,1,0], -1)
  return %v5.0
}
case "leaf for a while" {
  %a0 = tensor([0, -2, 1], f32, [3])
  call @f(%a0)
  backward
}
