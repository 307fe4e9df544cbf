# The tangent is the result itself, and .grad takes over its bytes, so that a write to the
# result changes .grad. Without passes the plan writes the result by a copy_, which sent
# zeros to the history of the tensor before the write, and the sum was a new tensor.

func @f(%p0: f32[] @0) {
  %v0 = squeeze_dims_copy(%p0, [])
  %v1 = randn([], f32)
  %v2 = randn([], f32)
  %v3 = addcdiv_(%v0, %v1, %v2, -1)
  return %v0
}
case "seed 9105600743" {
  %a2 = tensor([0], f32, [], requires_grad=true)
  call @f(%a2)
  backward %out.0 with %out.0
}

# The same for a written argument.
func @g(%p0: f32[]) {
  add_(%p0, 2.0)
  return %p0
}
case "a written argument" {
  %a = tensor([0], f32, [1], requires_grad=true)
  %b = squeeze_copy(%a)
  call @g(%b)
  %t = randn([], f32, seed=1)
  backward %out.0 with %t
  backward
}
