# Refused: a leaf that the call makes gets other sizes under no_grad, and the grad_fn of a view of it was read
# before that.

func @f(%p0: f32[1,0], %p1: f32[1,2,2]) {
  requires_grad_(%p1, true)
  %v1 = diagonal(%p0, 0)
  inference {
    squeeze_dims_(%p1, [2,0])
  }
  return %p0
}
case "seed 211123245" {
  %a1 = full([1,2,2], 2, f32)
  %a2 = diagonal(%a1, -2, -1, -2)
  mul_(%a2, -1.25)
  call @f(%a2, %a1)
  backward
}
