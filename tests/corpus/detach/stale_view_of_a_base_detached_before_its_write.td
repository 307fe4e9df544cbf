# A view of a base that was detached and then written: eager updates the view's history at its next use.

func @f(%p0: f32[6,3], %p1: f32[2,3,3]) {
    detach_(%p1)
  %v4 = diff(%p0, 2, 1)
  frac_(%p1)
  return %v4
}
case "seed 210031876" {
  %a1 = randn([2,3,3], f32, seed=93, requires_grad=true)
  %a2 = reshape(%a1, [-1,3])
  call @f(%a2, %a1)
  call @f(%a2, %a1)
}
