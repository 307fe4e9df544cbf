# Refused: a compiled call inside a checkpoint enlarges the storage of an argument, so that other code runs when the region
# is recomputed, and saves other values.

func @f(%p0: f32[2,2] @0, %p1: f32[2,2] @0) {
  %v0 = custom("own", func @forward(%a: f32[2,2]) {
      %z = mul(%a, %a)
      return %z, %a <saved 0>
    }, func @backward(%a: f32[2,2] <saved 0>, %g: f32[2,2] <tangent 0>) {
      %h = mul(%g, %a)
      return %h <grad 0>
    }, [%p1], [])
  %v3 = randn([2,2], f32)
  %v4 = set_(%v3, %p0, 3, [1,2])
  %v6 = square_(%v0)
  %v7 = custom("own", func @forward(%a: f32[2,2]) {
      return %a
    }, func @backward(%g: f32[2,2] <tangent 0>) {
      return 
    }, [%p0], [])
  %v8, %v9 = custom("own", func @forward(%a: f32[2,2]) {
      return %a, %a
    }, func @backward(%g: f32[2,2] <tangent 0>) {
      return 
    }, [%v0], [], plain=[1])
  %v10 = custom("own", func @forward(%a: f32[2,2]) {
      return %a
    }, func @backward(%g: f32[2,2] <tangent 0>) {
      return 
    }, [%p1], [])
  %v12 = custom("own", func @forward(%a: f32[2,2]) {
      return %a, %a <saved 0>
    }, func @backward(%a: f32[2,2] <saved 0>, %g: f32[2,2] <tangent 0>) {
      return 
    }, [%v8], [])
  %v13 = randint(0, 2, [2,2], i64)
  %v14 = value_selecting_reduction_backward(%v10, 1, %v13, [2,2], true) prefer_recompute 1
  return %v14, %v6, %v8, %v8
}
func @g(%q0: f32[2,2], %q1: f32[2,2]) {
  return 
}
case "seed 1300593212" {
  %a0 = full([2,2], 2, f32, requires_grad=true)
  %a2 = view(%a0, [2,2])
  call @f(%a0, %a2) checkpoint=true
  backward %out.3, %out.1
}
