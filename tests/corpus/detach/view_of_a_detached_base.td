# One of several views is stale and its base was detached: reading it fails, also in a capture.

func @f(%p0: f32[2,2,2] grad @0, %p1: f32[2,2,2] grad @0) {
  detach_(%p1)
  %v2 = expand(%p0, [2,2,2])
  %v3 = cosh_(%p1)
  return %v3
}

case "a view of a detached base" {
  %a2 = randint(-3, 4, [2,2,2], f32, seed=83, requires_grad=true)
  %a3... = split_with_sizes(%a2, [2], -3)
  call @f(%a3.0, %a2)
  call @f(%a3.0, %a2)
}
