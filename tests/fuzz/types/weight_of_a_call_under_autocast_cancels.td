# Eager casts the weight once, and adds up its gradients in bf16; compiled, those of
# the call and those of its gradients are added in f32. Second gradients cancel.

func @f(%p0: f32[2,2,2,2] of fz_pair("", f32[2,2,2,2], f32[2,2,2,2])) {
  %v0, %v1 = custom("own", func @forward(%a: f32[2,2,2,2]) {
      %z = mul(%a, 3.0)
      return %z, %a
    }, func @backward(%g: f32[2,2,2,2] <tangent 0>) {
      %h = mul(%g, 3.0)
      return %h <grad 0>
    }, [%p0], [], plain=[1])
  %v2 = region(func @once0(%a: f32[2,2,2,2], %b: f32[2,2,2,2]) {
      %m = matmul(%a, %b)
      %t = tanh(%m)
      %r = add(%t, %a)
      return %r
    }, [%v0, %v0])
  %v3 = region(@once0, [%v2, %p0])
  return %v3, %v3
}
func @g(%q0: f32[2,2,2,2] of fz_pair("", f32[2,2,2,2], f32[2,2,2,2]), %q1: f32[2,2,2,2] of fz_pair("", f32[2,2,2,2], f32[2,2,2,2]), %q2: f32[2,2,2,2] of fz_pair("", f32[2,2,2,2], f32[2,2,2,2])) {
  return 
}
case "seed 19031" {
  %a2 = tensor([2, -1, -1, -2, -2, 2, -1, -2, -2, 1, -1, 2, 0, 1, -1, 0], f32, [2,2,2,2])
  %a3 = randint(-2, 4, [2,2,2,2], f32, seed=16)
  %a4 = _wrap([%a2, %a3], "fz_pair", "", [2,2,2,2], [], f32, requires_grad=true)
  call @f(%a4) autocast=bf16 module=train control=true body=true
  %q1 = sin(%out.1)
  on_grad(%q1, func @hook(%g: f32[2,2,2,2], %a: f32[2,2,2,2]) {
      return %g
    }, [%out.1])
  on_grad(%q1, func @hook(%g: f32[2,2,2,2]) {
      return %g
    }, [])
  backward %q1 seed=4 create_graph=true
  %g0 = grad %a4
  backward %g0 create_graph=true
no_grad {
}
}
