# seed 314507: compiled: line 9: %out.0 does not have requires_grad, compiled does; line 9: %out.0 has is_leaf, compiled does not

func @f(%p0: f32[2,2,1,2] @0) {
  %v0 = detach_(%p0)
  %v2 = swapaxes(%p0, 2, 2)
  transpose_(%v2, -4, -2)
  return %v2
}
case "seed 314507" {
  %a0 = full([2,2,1,2], 1, f32, requires_grad=true)
  call @f(%a0)
}
