# seed 313384: compiled: line 10: %out.0 has requires_grad, compiled does not; line 10: %out.0 does not have is_leaf, compiled does

func @f(%p0: f32[2], %p3: f32[1,2]) {
    detach_(%p3)
  %v4 = sum_to_size(%p0, [1])
  return  %v4
}
case "seed 313384" {
  %a0 = randint(-2, 2, [1,2], f32, seed=10, requires_grad=true)
  %a1 = ravel(%a0)
  call @f(%a1, %a0)
  call @f(%a1, %a0)
}
