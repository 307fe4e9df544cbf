# A stale view made under no_grad, whose history eager refuses to read, is an argument that the call reads under no_grad alone.

func @f( %p1: f32[1]) {
  %v6 = hardsigmoid_backward(%p1, %p1) prefer_save 1
  no_grad {
    celu_(%p1)
  }
  return %v6
}
func @g(%q0: f32[1], %q1: f32[1], %q2: f32[1]) {
  %u0 = rsqrt_(%q1) prefer_recompute 1
  %u1, %u2 = custom("own", func @forward(%a: f32[1]) {
      return %a, %a
    }, func @backward(%g: f32[1] <tangent 0>) {
      return 
    }, [%q1], [], plain=[1])
  no_grad {
    %u4 = custom("own", func @forward(%a: f32[1]) {
      return %a
    }, func @backward(%g: f32[1] <tangent 0>) {
      return 
    }, [%q2], [])
    %u5 = dropout(%q0, 0.75, true)
  }
  return 
}
case "seed 91000966" {
  %a0 = randint(-1, 1, [1,1], f32, seed=8, requires_grad=true)
  no_grad {
    %a1 = squeeze_dim(%a0, -1)
  }
  requires_grad_(%a1, true)
  call @f( %a1)
  %y... = call @g(%a1, %out.0, %a1)
}
