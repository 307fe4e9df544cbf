# Refused: a leaf is used, and then its sizes change under no_grad; its gradient has the old sizes.

func @f(%p0: f32[1,2] @0) {
  %v0 = erf(%p0)
  atan2_(%v0, %v0)
  no_grad {
    as_strided_(%p0, [1], [0])
  }
  return %p0
}
case "seed 250096328" {
  %a2 = tensor([2, 1], f32, [1,2], requires_grad=true)
  call @f(%a2)
  backward
}
