# Views of an input have offsets relative to the input's own offset; see debug_asserts.

func @f(%p0: bf16[1,3]{3,1}+6 @0, %p1: f32[3,2,3] @1) {
  %v0 = linalg_vector_norm(%p0, -0.25, none, false)
  %v1 = squeeze_dims(%p0, [-2,1])
  sqrt_(%v1)
  no_grad {
    mish_(%v1)
  }
  return  %p1, %v0, %p0
}

case "seed 132166558" {
  %a0 = randint(-3, 4, [3,3], bf16, seed=98)
  %a1 = randint(-3, 4, [], f32, seed=10)
  %a2 = narrow(%a0, 0, -1, 1)
  %a3 = tensor([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0], bool, [3,2,3])
  %a4 = native_dropout_backward(%a1, %a3, 2.5)
  %a5 = contiguous(%a0)
  call @f(%a2, %a4)
  %b0 = clone(%a2)
  call @f(%b0, %a4)
}
