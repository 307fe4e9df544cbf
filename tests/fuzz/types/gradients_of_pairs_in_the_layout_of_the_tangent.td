# Strides of the inner tensors of a gradient depend on the tangent and are not compared.

func @f( %p1: f32[2,2] of fz_pair("m", f32[2,2], f32[2,2] of fz_pair("", f32[2,2]{1,2}, f32[2,2]))) {
  %v0 = normal(%p1)
  %v1... = unbind(%v0, -1)
  return %v1.1
}
case "seed 2383" {
  %a1 = randn([2,2], f32,)
  %a2 = full([2,2], 2, f32)
  %a5 = transpose(%a2, 0, 1)
  %a6 = randint(-2, 2, [2,2], f32,)
  %a7 = _wrap([%a5, %a6], "fz_pair", "", [2,2], [], f32)
  %a8 = _wrap([%a1, %a7], "fz_pair", "m", [2,2], [], f32, requires_grad=true)
  call @f( %a8)
  backward
}
