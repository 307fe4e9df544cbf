# An input whose geometry is written is saved for backward with the geometry it had at the call.

func @f(%p1: f32[2,3]) {
  %v0 = sgn(%p1)
  %v1 = unsqueeze_(%v0, -1)
  t_(%p1)
  atan_(%v1)
  return %v1
}
case "input saved before a metadata write" {
  %a4 = randn([2,3], f32, seed=90, requires_grad=true)
  %a5 = _scale(%a4, -0.5)
  call @f(%a5)
  backward
}
