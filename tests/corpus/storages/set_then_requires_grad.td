# An input that set_ takes away from bytes another one shows, a leaf from then on.

func @f(%p0: f32[2,2] @0, %p1: f32[2,2] @0) {
  leaky_relu_(%p1)
  %v0 = randint(-2, 2, [2], f32)
  %v1 = set_(%p0, %v0)
  requires_grad_(%p0, true)
  return %p1
}
case "set_ then requires_grad_" {
  %a0 = randint(-2, 2, [2,2], f32,)
  %a1 = narrow(%a0, -1, 0, 2)
  call @f(%a0, %a1)
}
