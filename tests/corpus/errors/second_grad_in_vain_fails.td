# A backward with create_graph fails also where nothing reads the gradient.

func @f(%p0) {
  %v0 = _expand_reduced(%p0, [81], none, false)
  %v1 = full([81], 1, bool)
  %v2 = masked_scatter_backward(%v0, %v1, [1])
  return %v2
}
case "seed 101067981" {
  no_grad {
    %a7 = randint(-3, 1, [3,3,3,3], f32, seed=87, requires_grad=true)
    %a8 = ravel(%a7)
  }
  call @f(%a8)
  backward create_graph=true
}
