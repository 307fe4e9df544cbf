# A second gradient; a view of an input without gradients is written.

func @f(%p0: f32[], %p3: f32[1], %p4: f32[1]) {
  no_grad {
  }
  ge_(%p3, %p4)
  %v6 = neg_(%p0)
  return %p0
}
case "seed 124155404" {
  %a1 = full([1], 1, f32, requires_grad=true)
  %a2 = full([1], 0, f32)
  %a5 = reshape(%a2, [])
  call @f(%a5, %a2, %a1)
  backward create_graph=true
}
