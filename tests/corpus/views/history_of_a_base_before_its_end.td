# A view that has the history of its base, which is detached after that.

func @f( %p1: f32[3,3,3] @1, %p2: f32[3,3,3] @1) {
  cosh_(%p2)
  %v0 = squeeze(%p1)
  %v3 = detach_(%p2)
  return %v0
}
case "seed 132084221" {
  %a0 = full([3,3,3], 0, f32, requires_grad=true)
  %a3 = clone(%a0, true)
  %a4 = squeeze_dims(%a3, [-3,1,2])
  call @f( %a4, %a3)
  backward
}
