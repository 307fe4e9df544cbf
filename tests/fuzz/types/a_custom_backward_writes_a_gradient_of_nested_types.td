# The backward of a custom function writes a gradient of nested types, twice: the code writes its inner tensors.

func @f(%p2) {
  %v4 = custom("own", func @forward(%a: f32[3]) {
      %z = mul(%a, 2.0)
      return %z
    }, func @backward(%g: f32[3] <tangent 0>) {
      mul_(%g, 2.0)
      add_(%g, 1)
      %h = neg(%g)
      return %h <grad 0>
    }, [%p2], [])
  return %v4
}
case "a backward writes a gradient of nested types" {
  %a2 = tensor([0, 3, -1], f32, [3])
  %a5 = tensor([1, 3, -1], f32, [3])
  %a8 = _wrap([%a2, %a5], "fz_pair", "", [3], [], f32)
  %a6 = _wrap([%a2, %a8], "fz_pair", "m", [3], [], f32, requires_grad=true)
  %a7 = mul(%a6, 1)
  call @f(%a7) 
  %t = ones_like(%out.0)
  backward %out.0 with %t
}
