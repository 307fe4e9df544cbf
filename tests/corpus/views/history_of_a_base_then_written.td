# A view that has the history its base had for a while, written since.

func @f(%p0, %p1) {
  exponential_(%p0, 1.5)
  requires_grad_(%p1)
  %v9 = randint(0, 1, [1], i64)
  %v10 = randint(-3, 1, [1], f32)
  %v11 = index_copy(%p0, -1, %v9, %v10)
  detach_(%p1)
  squeeze_dim_(%p1, 0)
  return 
}
case "seed 124051090" {
  %a0 = tensor([-1, 1, 0, 1, -1, 3, -1, -1, -1], f32, [3,3])
  %a3 = diagonal(%a0, 1, 0)
  call @f(%a3, %a0)
}
