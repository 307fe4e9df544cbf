# as_strided of a tangent is not as_strided of an input.

func @f(%p0: f16[2,3,3] grad @0, %p1: f32[2,3,3] grad @1, %p2: f16[2,3,3] grad @0, %p3: f32[2,3,3] grad @2) {
  %v0 = _log_softmax(%p1, 0, false)
  ceil_(%p2)
  %v10 = unsqueeze(%p1, 0)
  mish_(%v10)
  %v13 = _linear_scan(%v0, %p1, -1, false)
  enable_grad {
    copysign_(%p0, -0.75)
  }
  %v14 = slice_scatter(%p1, %p3, 2, none)
  %v15, %v16 = sort(%p3)
  %v17 = var(%v15, none, none, true)
  %v18 = full([2,3,3], 1, bool)
  masked_fill_(%v13, %v18, 0)
  return %v13, %v17
}

case "strided tangent" {
  %a0 = randn([2,3,3], f32, seed=99, requires_grad=true)
  %a6 = baddbmm(%a0, %a0, %a0, -0.75, -1.5)
  %a7 = to(%a6, f16, false)
  call @f(%a7, %a6, %a7, %a0)
  backward seed=9 retain_graph=true
  backward seed=5
}
