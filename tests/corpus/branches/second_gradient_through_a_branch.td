# The gradient that arrives at a branch requires grad with create_graph, and so does what the branch makes of it alone.

func @f(%x: f32[] grad) {
  %p = ne(%x, 0)
  %y = cond(%p, func @yes(%a: f32[] grad) {
      %r = mul(%a, 3.0)
      return %r
    }, func @no(%a: f32[] grad) {
      return %a
    }, [%x])
  %z = mul(%y, %y)
  return %z
}

case "the branch that multiplies" {
  %x = full([], 2, f32, requires_grad=true)
  call @f(%x) control=true
  backward create_graph=true
  %g = grad %x
  backward %g
}

case "the branch that returns its argument" {
  %x = full([], 0, f32, requires_grad=true)
  call @f(%x) control=true
  backward create_graph=true
  %g = grad %x
  backward %g
}

case "as an op" {
  %x = full([], 2, f32, requires_grad=true)
  call @f(%x)
  backward create_graph=true
  %g = grad %x
  backward %g
}
