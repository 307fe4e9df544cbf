# An argument that is never read may be a view that eager would fail to read.

func @f(%p0: f32[2,2] @0, %p2: f32[2,2] @0) {
  %v0 = squeeze_dims_(%p2, [0,-1])
  return
}
case "stale view unread" {
  %a2 = randint(-2, 2, [2,2], f32, seed=31, requires_grad=true)
  %a3 = detach(%a2)
  no_grad {
    %a5 = alias(%a2)
  }
  call @f(%a5, %a3)
  call @f(%a5, %a3)
}
