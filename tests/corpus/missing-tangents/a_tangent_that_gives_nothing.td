# The gradient of a norm of order 0 is none, also where another result gives one.
func @f(%p0) {
  %v11 = linalg_vector_norm(%p0, 0.0, none, true, none)
  %v12 = mul(%v11, 2.0)
  %v17... = split_with_sizes(%p0, [1,1], -2)
  %v18 = mul(%v17.0, 2.0)
  return %v12, %v18
}
case "a" {
  %a2 = randn([2,2], f32, seed=22, requires_grad=true)
  call @f(%a2)
  backward %out.0
}
