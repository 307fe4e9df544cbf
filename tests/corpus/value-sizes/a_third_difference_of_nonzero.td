# Differences of as many rows as values say have the strides of eager.
func @f(%p0: f32[2,4] @0, %p1: f32[2,4] @0) {
  %v0 = tensor([1, 1, -1, 1, -2, 0, 3, 1, 3, -1, -2, 2, 2, -2, 0, 2], i64, [4,2,2])
  %v1 = squeeze_dim(%v0, -1)
  %v2 = full([2,4], 1, bool)
  masked_fill_(%p1, %v2, 2)
  %v6 = nonzero(%p0)
  %v7 = clamp(%v6, -1.0)
  %v8 = tensor([-2, 2, 1], f32, [3])
  enable_grad {
    %v10 = diff(%v6, 3, -2)
  }
  return  %p1, %v10
}

case "a_third_difference_of_nonzero" {
  %a0 = randint(-3, 4, [], f32, seed=19)
  %a1 = randint(-3, 4, [2,4], f32, seed=80)
  sinh_(%a1)
  %a2 = transpose(%a1, 0, -2)
  call @f(%a2, %a1)
}
