# Refused: a temporary reads a leaf whose sizes then change; another result has a history, but not of the leaf.

func @f(%p0: f32[0] @0, %p2: f32[1,2] @1) {
  %v0 = as_strided_scatter(%p0, %p0, [0], [2], 2)
  %v1 = ravel(%p2)
  no_grad {
    t_(%p2)
  }
  %v25, %v26, %v27 = unique(%v1)
  return  %p2, %v0
}
case "a leaf read by a temporary, beside another history" {
  %a0 = full([1,2], 1, f32, requires_grad=true)
  %a1 = randint(-2, 2, [1], f32, seed=27, requires_grad=true)
  %a2 = diff(%a1)
  call @f(%a2, %a0)
  backward
}
