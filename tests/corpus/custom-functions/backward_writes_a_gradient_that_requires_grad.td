# Refused: with create_graph, a custom backward writes a gradient that requires grad; eager allows it unless that is a leaf.

func @f(%p0: f32[1,1,1]) {
  %v3 = custom("own", func @forward(%a: f32[1,1,1]) {
      %r = mul(%a, 2.0)
      return %r
    }, func @backward(%g: f32[1,1,1] <tangent 0>) {
      mul_(%g, 2.0)
      return 
    }, [%p0], [])
  return %v3, %v3
}
func @g(%q0: f32[1,1,1], %q1: f32[1,1,1]) {
  log2_(%q1) must_save 1
  return %q1
}
case "seed 50437" {
  %a0 = randint(-1, 1, [1,1,1], f32, seed=23, requires_grad=true)
  call @f(%a0)
  %y... = call @g(%a0, %out.1)
  backward create_graph=true
}
