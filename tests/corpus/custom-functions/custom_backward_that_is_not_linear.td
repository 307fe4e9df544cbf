# Refused: gradients of gradients go through a result whose backward gives a part that no gradient scales.
func @f(%p0: f32[1], %p1: f32[1]) {
  %u = custom("own", func @forward(%a: f32[1], %b: f32[1]) {
      %c = mul(%a, %b)
      return %c, %a <saved 0>, %b <saved 1>, %c <saved 2>
    }, func @backward(%s: f32[1] <saved 0>, %t: f32[1] <saved 1>, %r: f32[1] <saved 2>, %g: f32[1] <tangent 0>) {
      %h = mul(%s, %g)
      %k = mul(%t, %r)
      return %h <grad 0>, %k <grad 1>
    }, [%p0, %p1], [])
  return %u
}
case "custom_backward_that_is_not_linear" {
  %a0 = full([1], 3, f32, requires_grad=true)
  %a1 = full([1], 0.5, f32, requires_grad=true)
  call @f(%a0, %a1)
  %y = mul(%out.0, %out.0)
  backward %y create_graph=true
  %g0 = grad %a0
  %g1 = grad %a1
  %z = mul(%g0, %g1)
  backward %z
}
