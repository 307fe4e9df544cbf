# A view of a leaf whose sizes change.

func @f(%p0: f32[1,2] @0) {
  %v1 = expand_as(%p0, %p0)
  no_grad {
    unsqueeze_(%p0, -1)
  }
  return %v1
}
case "leaf changes sizes view" {
  %a2 = randint(-2, 1, [1,2], f32, seed=21, requires_grad=true)
  call @f(%a2)
  backward
}
