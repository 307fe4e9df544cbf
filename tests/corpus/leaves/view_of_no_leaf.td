# A view keeps its history when its base is no longer a leaf, until the view is written.

func @f(%p0: f32[1]{1} @0) {
  %v1 = detach(%p0)
  ne_(%v1, %v1)
  %v2 = threshold_backward(%v1, %p0, 1)
  return %v2
}
case "view of no leaf" {
  %a0 = randint(-1, 1, [1,1], f32, seed=78, requires_grad=true)
  %a1 = diagonal(%a0)
  requires_grad_(%a0, false)
  call @f(%a1)
  backward
}
