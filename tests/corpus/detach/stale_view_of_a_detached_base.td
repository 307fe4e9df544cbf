# The base of a view is written and then detached before the grad_fn of the view is read.

func @f(%p0: f32[1] @0, %p2: f32[1] @0) {
    detach_(%p0)
  return 
}
case "stale view of a detached base" {
  %a0 = full([1], 1, f32, requires_grad=true)
  %a1 = full([1], 1, f32)
  %a2 = movedim(%a1, [0], [-1])
  %a5 = randint(-1, 1, [1], i8,)
  %a6 = addcmul_(%a1, %a5, %a0, -1)
  call @f(%a6, %a2)
}
