# Refused: the hook reads an argument that the caller writes before backward. What the
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
