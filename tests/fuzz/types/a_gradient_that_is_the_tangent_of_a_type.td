# The gradient of a transposed argument of a type is the tangent itself, and a second
# backward adds to it in place. Compiled, it was a copy.

func @f( %p1: f32[2,2]{1,2} of fz_pair("", f32[2,2]{1,2}, f32[2,2]{1,2}) @1) {
  %v10 = sub(%p1, 0, 0.75)
  return %v10
}
case "seed 1500799761" {
  %a3 = tensor([2, -2, -1, -2], f32, [2,2])
  %a4 = randn([2,2], f32,)
  %a5 = _wrap([%a3, %a4], "fz_pair", "", [2,2], [], f32, requires_grad=true)
  %a6 = numpy_T(%a5)
  call @f( %a6)
  backward %out.0 with %out.0
  backward %out.0, %out.0
}
