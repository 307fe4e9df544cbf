# The hook reads an argument as the caller has written it before backward. What the
# hook computes without the gradient must not be computed in forward.

func @f(%p0: f32[2,2]) {
  %v2... = chunk(%p0, 2, 1)
  %v3 = diff(%v2.0, 2, -1)
  on_grad(%v2.0, func @hook(%g: f32[2,1], %a: f32[2,1]) {
      return %a
    }, [%v2.0])
  return %p0, %v3
}
func @g(%p0: f32[2,2], %m: f32[2,2]) {
  %e = exp(%m)
  %v = sin(%p0)
  on_grad(%v, func @hook(%g: f32[2,2], %a: f32[2,2]) {
      %b = exp(%a)
      %c = mul(%g, %b)
      return %c
    }, [%m])
  %r = mul(%v, %e)
  return %r
}
func @w(%p0: f32[2,2], %m: f32[2,2]) {
  %v = sin(%p0)
  on_grad(%v, func @hook(%g: f32[2,2], %a: f32[2,2]) {
      %b = exp(%a)
      %c = mul(%g, %b)
      return %c
    }, [%m])
  mul_(%m, 2.0)
  %r = mul(%v, 3.0)
  return %r
}
func @u(%p: f32[2,2]) {
  %v = mul(%p, 2.0)
  on_grad(%v, func @hook(%g: f32[2,2], %a: f32[2,2]) {
      %c = mul(%g, %a)
      return %c
    }, [%p])
  mul_(%p, 5.0)
  %r = mul(%v, 3.0)
  return %r
}
case "the gradient is the argument" {
  %a1 = full([2,2], 0, f32, requires_grad=true)
  call @f(%a1)
  no_grad {
    fill_(%a1, 1)
  }
  backward %out.1, %out.1
}
case "nothing is written" {
  %a1 = full([2,2], 0.25, f32, requires_grad=true)
  %a2 = full([2,2], 0.5, f32)
  call @g(%a1, %a2)
  backward
}
case "both arguments are written" {
  %a1 = full([2,2], 0.25, f32, requires_grad=true)
  %a2 = full([2,2], 0.5, f32)
  call @w(%a1, %a2)
  no_grad {
    add_(%a2, 1.0)
  }
  backward seed=1 retain_graph=true
  no_grad {
    add_(%a2, 1.0)
  }
  backward seed=1
}
case "the written argument has a history" {
  %l = full([2,2], 0.25, f32, requires_grad=true)
  %a1 = mul(%l, 2.0)
  call @u(%a1)
  no_grad {
    add_(%a1, 1.0)
  }
  backward %out.0 seed=1
}
