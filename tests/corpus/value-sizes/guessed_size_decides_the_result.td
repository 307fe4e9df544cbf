# The capture assumed an empty result, which dropout returns itself; the call has one element.

func @f(%p0: f32[1]) {
  %v1, %v2 = custom("own", func @forward(%a: f32[1]) {
      %t = sin(%a)
      return %a, %t <saved 0>
    }, func @backward(%t: f32[1] <saved 0>, %g: f32[1] <tangent 0>) {
      return 
    }, [%p0], [])
  %v3 = randint(0, 2, [1], bool)
  %v4 = index(%v1, [%v3])
  %v7 = randn([], f32)
  %v8 = gelu_backward(%p0, %v7, "tanh")
  squeeze_dim_(%v7, 0)
  return  %v8, %v4
}
func @g(%q0: f32[1], %q1: f32[], %q2: f32[1]) {
  return 
}
case "a guess about a size decided what is returned" {
  %a1 = randint(-2, 2, [1], f32, seed=11, requires_grad=true)
  call @f(%a1) module=train
}
