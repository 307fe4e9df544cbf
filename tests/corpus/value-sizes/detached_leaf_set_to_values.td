# A leaf is detached and set to values with a history: it is a leaf no more.

func @f(%p0: f32[4] @0) {
  %v0 = _expand_reduced(%p0, [4,1], [-1], false)
  %v4 = detach_(%p0)
  %v5, %v6, %v7 = unique(%v0, true, true)
  set_(%v4, %v5)
  return 
}
case "seed 780224033" {
  %a0 = tensor([-1, 0, 1, 1], f32, [4], requires_grad=true)
  call @f(%a0)
}
