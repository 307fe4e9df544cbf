# A stale view is squeezed to the sizes it has: that reads its grad_fn and so updates its history.

func @f( %p4: f32[2,2,2] @0) {
  %v0 = squeeze_dims_(%p4, [2,1])
  return 
}
case "seed 124181656" {
  %a0 = full([2,2,2], 2, f32)
  %a2 = view_as(%a0, %a0)
  %a3 = swapaxes(%a2, -2, -2)
  %a4 = randint(0, 2, [2,2,2], i64,)
  %a5 = randint(-2, 2, [2,2,2], f32, seed=49, requires_grad=true)
  %a6 = scatter_add_(%a3, 1, %a4, %a5)
  call @f( %a2)
}
