# The backward for a plain gradient was traced in its strides, and got a copy in those of the result.

func @f(%p0) {
  %v18 = sin(%p0)
  return %v18
}
case "a plain gradient of a transposed pair" {
  %a3 = full([2,3], 1, f32, requires_grad=true)
  %a4 = full([2,3], 2, f32, requires_grad=true)
  %a5 = _wrap([%a3, %a4], "fz_pair", "", [2,3], [], f32, requires_grad=true)
  %b0 = transpose(%a5, 0, 1)
  %b1 = contiguous(%b0)
  %b2 = transpose(%b1, 0, 1)
  call @f(%b2) 
  %t = randn([2,3], f32, seed=6, requires_grad=true)
  backward %out.0 with %t
}
