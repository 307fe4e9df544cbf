# A captured loop is one node; the custom function before a state that no gradient reaches is not called backward.

func @f(%p0: f32[3,3] @0) {
  %v0 = custom("own", func @forward(%a: f32[3,3]) {
      return %a, %a <saved 0>
    }, func @backward(%a: f32[3,3] <saved 0>, %g: f32[3,3] <tangent 0>) {
      return %a <grad 0>
    }, [%p0], [])
  %v1 = full([], 0, i64)
  %v2, %v3, %v4 = while_loop(func @test(%n: i64[], %a: f32[3,3], %b: f32[3,3]) {
      return %n
    }, func @body(%n: i64[], %a: f32[3,3], %b: f32[3,3]) {
      %m = add(%n, 1)
      return %m, %a, %b
    }, [%v1, %v0, %p0], [])
  return %v4
}
func @g(%q0: f32[3,3], %q1: f32[3,3]) {
  return 
}
case "seed 227606955" {
  %a0 = tensor([-1, 0, -1, -1, 3, 1, 0, 1, 3], f32, [3,3], requires_grad=true)
  call @f(%a0) control=true
  backward
}
