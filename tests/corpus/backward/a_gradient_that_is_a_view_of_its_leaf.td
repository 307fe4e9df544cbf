# The tangent is the result, a view of the leaf: the gradient shares its storage and has no history.

func @f(%p1: f64[1,2] grad) {
  %v0 = unflatten(%p1, -1, [2])
  return %v0
}
case "the tangent is the result" {
  %a0 = full([2], 1, f64, requires_grad=true)
  %a2 = unsqueeze(%a0, 0)
  call @f(%a2)
  backward %out.0 with %out.0
  call @f(%a2)
  backward seed=8
}
