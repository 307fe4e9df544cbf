# seed 315999: compiled: line 10: %out.0 has requires_grad, compiled does not; line 10: %out.0 does not have is_leaf, compiled does

func @f(%p0: f32[1,1,1,1] @0, %p1: f32[1,1,1,1] @0) {
  detach_(%p1)
  %v18 = scaled_dot_product_attention(%p1, %p0, %p1, %p1)
  return %v18
}
case "seed 315999" {
  %a1 = full([1,1,1,1], 1, f32, requires_grad=true)
  %a8 = alias(%a1)
  call @f(%a8, %a1)
  call @f(%a8, %a1)
}
