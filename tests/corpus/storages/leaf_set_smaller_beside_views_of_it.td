# A leaf that views of it are passed with is given other sizes by set_, and read then: it takes gradients of its new sizes.

func @f(%p0: f32[1,2]{2,1}+2 @0, %p1: f32[2,2] @0, %p2: f32[1,2] @0, %p3: f32[2,2] @0) {
  no_grad {
    %v0 = set_(%p1, %p1, 2, [2], [0])
    %v1 = custom("own", func @forward(%a: f32[2]) {
      return %a
    }, func @backward(%g: f32[2] <tangent 0>) {
      return 
    }, [%p3], [])
  }
  %v10 = custom("own", func @forward(%a: f32[2]) {
      return %a, %a <saved 0>
    }, func @backward(%a: f32[2] <saved 0>, %g: f32[2] <tangent 0>) {
      return %a <grad 0>
    }, [%p1], [])
  return %v10
}
func @g(%q0: f32[1,2], %q1: f32[1,2], %q2: f32[2]) {
  %u1, %u2 = custom("own", func @forward(%a: f32[]) {
      return 
    }, func @backward(%a: f32[] <saved 0>, %g: f32[] <tangent 0>) {
      return 
    }, [%q2], [])
  return 
}
case "seed 713057161" {
  %a0 = full([2,2], 0, f32, requires_grad=true)
  %a1... = split(%a0, 1, -2)
  call @f(%a1.1, %a0, %a1.0, %a0)
  backward
}
