# The gradient of a gradient reaches an input that only the backward of a custom function reads.
func @f(%p0: f32[1], %p1: f32[1]) {
  %u = custom("own", func @forward(%a: f32[1], %b: f32[1]) {
      %c = mul(%a, 2.0)
      return %c, %c <saved 0>
    }, func @backward(%s: f32[1] <saved 0>, %g: f32[1] <tangent 0>) {
      %h = mul(%s, %g)
      %k = mul(%g, 5.0)
      return %h <grad 0>, %k <grad 1>
    }, [%p0, %p1], [])
  return %u
}
case "custom_gradient_of_an_input_it_does_not_read" {
  %a0 = full([1], 3, f32, requires_grad=true)
  %a1 = full([1], 0.5, f32, requires_grad=true)
  call @f(%a0, %a1)
  backward %out.0 create_graph=true
  %g0 = grad %a0
  backward %g0
}
