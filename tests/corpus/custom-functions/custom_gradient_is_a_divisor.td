# Refused: double backward passes through a custom function whose backward divides a saved value by its incoming gradient.
func @f(%p0: f32[2], %p1: f32[2]) {
  %u = custom("own", func @forward(%a: f32[2], %b: f32[2]) {
      %c = mul(%a, %b)
      return %c, %a <saved 0>, %b <saved 1>
    }, func @backward(%s: f32[2] <saved 0>, %t: f32[2] <saved 1>, %g: f32[2] <tangent 0>) {
      %h = div(%t, %g)
      %k = mul(%g, %s)
      return %h <grad 0>, %k <grad 1>
    }, [%p0, %p1], [])
  %v = sin(%u)
  return %v
}
case "custom_gradient_is_a_divisor" {
  %a0 = tensor([3, -2], f32, [2], requires_grad=true)
  %a1 = tensor([0.5, 0.25], f32, [2], requires_grad=true)
  call @f(%a0, %a1)
  %y = mul(%out.0, %out.0)
  backward %y seed=1 create_graph=true
  %g0 = grad %a0
  %g1 = grad %a1
  %z = mul(%g0, %g1)
  backward %z seed=2
}
