# A captured loop is one node; the custom function before a state that no gradient reaches is not called backward.

func @f(%p0: f32[1] @0) {
  %v0 = custom("own", func @forward(%a: f32[1], %b: f32[1]) {
      return %a, %a <saved 0>
    }, func @backward(%a: f32[1] <saved 0>, %g: f32[1] <tangent 0>) {
      %h = mul(%a, %g)
      return %h <grad 0>
    }, [%p0, %p0], [])
  %v1 = full([], 0, i64)
  %v2, %v3, %v4 = while_loop(func @test(%n: i64[], %a: f32[1], %b: f32[1]) {
      return %n
    }, func @body(%n: i64[], %a: f32[1], %b: f32[1]) {
      %m = add(%n, 1)
      return %m, %a, %b
    }, [%v1, %v0, %p0], [])
  return  %v4
}
func @g(%q0: f32[1], %q1: f32[1], %q2: f32[1]) {
  return 
}
case "seed 230303976" {
  %a3 = randn([1], f32, seed=47, requires_grad=true)
  call @f(%a3) grads=true control=true
}
