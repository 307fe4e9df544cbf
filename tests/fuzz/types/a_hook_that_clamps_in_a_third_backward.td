# Refused: gradients of gradients pass a hook on a pair that is not linear in the gradient.

func @f(%p0) {
  return %p0, %p0
}
func @g(%q0: f32[3,3] of fz_pair("", f32[3,3]{1,3}, f32[3,3])) {
  %u0, %u1 = region(func @r0(%a: f32[3,3]) {
      %p = add(%a, 1)
      %q = add(%a, 2)
      return %p, %q
    }, [%q0])
  %u2, %u3 = region(@r0, [%q0])
  %u4 = reciprocal_(%u2)
  on_grad(%u4, func @hook(%g: f32[3,3]) {
      %h = clamp(%g, -0.5, 0.5)
      return %h
    }, [])
  return %u2
}
case "seed 1000197636" {
  %a1 = tensor([-2, 3, 3, 3, 1, 0, -2, 0, 0], f32, [3,3])
  %a5 = randint(-3, 2, [3,3], f32,)
  %a6 = _wrap([%a1, %a5], "fz_pair", "", [3,3], [], f32, requires_grad=true)
  call @f(%a6) dynamic=maybe body=true
  %y... = call @g(%out.1)
  backward create_graph=true
  %g0 = grad %a6
  backward %g0 create_graph=true
  %g1 = grad %a6
  backward %g1
}
