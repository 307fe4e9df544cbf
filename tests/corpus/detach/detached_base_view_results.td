# A view of a base that the call detaches and writes is a result.

func @f(%p0: f32[1] @0, %p1: f32[] @0) {
  %v0 = ravel(%p0)
  detach_(%p1)
  abs_(%p1)
  return %p1, %v0
}
case "seed 140078944" {
  %a1 = randint(-1, 1, [], f32, seed=11, requires_grad=true)
  %a3 = ravel(%a1)
  call @f(%a3, %a1)
  call @f(%a3, %a1)
}
