# Geometry written under no_grad has no history, though the base has one.

func @f(%p0: f32[1,27], %p1: f32[27,1]) {
  no_grad {
    transpose_(%p0, 0, 1)
    %v3 = erfc(%p0)
    enable_grad {
      %v11 = randint(0, 1, [27,1], bool)
      %v12 = masked_scatter_(%v3, %v11, %p0)
    }
  }
  return
}
case "reshaped without history" {
  %a0 = randint(-3, 1, [3,3,3], f32, seed=58, requires_grad=true)
  %a1 = reshape(%a0, [27,1])
  %a2 = t(%a1)
  call @f(%a2, %a1)
}
