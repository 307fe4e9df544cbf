# The geometry of a view of a leaf is written under no_grad.

func @f(%p0: f32[2,2]) {
  no_grad {
    %v0 = unsqueeze_(%p0, 1)
  }
  %v5 = mish(%v0)
  return %v5
}
case "leaf view reshaped under no grad" {
  %a1 = full([2,2], 2, f32, requires_grad=true)
  %a3 = squeeze_dims(%a1, [0,-1])
  call @f(%a3)
  backward
}
