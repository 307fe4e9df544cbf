# The call reads a leaf for nothing: its accumulation node must not outlive the call,
# because the next call changes the leaf's sizes under no_grad.

func @f(%p0: f32[2,3], %p3: f32[3,3]) {
  %v0 = rsqrt(%p0)
  %v4, %v5 = custom("own", func @forward(%a: f32[3,3], %b: f32[3,3]) {
      return %a, %b, %b <saved 0>
    }, func @backward(%b: f32[3,3] <saved 0>, %k: f32[3,3] <tangent 1>, %g: f32[3,3] <tangent 0>) {
      return 
    }, [%p3, %p3], [])
  return %v4, %v5, %v5
}
func @g(%q0: f32[3,3], %q1: f32[2,3], %q2: f32[3,3]) {
  no_grad {
    %u1 = transpose_(%q1, -2, -1)
  }
  return %u1
}
case "seed 41384741" {
  %a0 = full([2,3], 1, f32, requires_grad=true)
  %a1 = tensor([3, -1, 1, 0, -2, 1, 0, 3, -2], f32, [3,3], requires_grad=true)
  call @f(%a0, %a1)
  %y... = call @g(%out.2, %a0, %out.2)
  backward
}
