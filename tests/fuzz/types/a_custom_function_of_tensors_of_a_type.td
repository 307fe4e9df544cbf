# A custom function refused inputs of a type.

func @pair(%x: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]) grad, %n) {
  %y = custom("own", func @forward(%u: f32[2,3] of fz_pair("", f32[2,3], f32[2,3])) {
    %v = mul(%u, %u)
    return %v, %u <saved 0>
  }, func @backward(%u: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]) <saved 0>, %g: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]) <tangent 0>) {
    %h = mul(%g, %u)
    %i = mul(%h, 2.0)
    return %i <grad 0>
  }, [%x], [])
  return %y
}
func @nest(%x: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3]) grad, %n) {
  %y = custom("own", func @forward(%u: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3])) {
    %v = mul(%u, %u)
    return %v, %u <saved 0>
  }, func @backward(%u: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3]) <saved 0>, %g: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3]) <tangent 0>) {
    %h = mul(%g, %u)
    %i = mul(%h, 2.0)
    return %i <grad 0>
  }, [%x], [])
  return %y
}
func @diag(%x: f32[3,3] of fz_diag("", f32[3]) grad, %n) {
  %y = custom("own", func @forward(%u: f32[3,3] of fz_diag("", f32[3])) {
    %v = mul(%u, %u)
    return %v, %u <saved 0>
  }, func @backward(%u: f32[3,3] of fz_diag("", f32[3]) <saved 0>, %g: f32[3,3] of fz_diag("", f32[3]) <tangent 0>) {
    %h = mul(%g, %u)
    %i = mul(%h, 2.0)
    return %i <grad 0>
  }, [%x], [])
  return %y
}
func @round(%x: f32[2,3] of fz_rounded("", f32[2,3], f32[]) grad, %n) {
  %y = custom("own", func @forward(%u: f32[2,3] of fz_rounded("", f32[2,3], f32[])) {
    %v = mul(%u, %u)
    return %v, %u <saved 0>
  }, func @backward(%u: f32[2,3] of fz_rounded("", f32[2,3], f32[]) <saved 0>, %g: f32[2,3] of fz_rounded("", f32[2,3], f32[]) <tangent 0>) {
    %h = mul(%g, %u)
    %i = mul(%h, 2.0)
    return %i <grad 0>
  }, [%x], [])
  return %y
}
case "custom pair" {
  %a = randn([2,3], f32, seed=1)
  %b = randn([2,3], f32, seed=2)
  %x = _wrap([%a, %b], "fz_pair", "", [2,3], [], f32, requires_grad=true)
  %n = tensor(1, i64)
  call @pair(%x, %n)
  backward create_graph=true
  %g0 = grad %x
  backward %g0 create_graph=true
  %g1 = grad %x
  backward %g1
}
case "custom nest" {
  %a = randn([2,3], f32, seed=1)
  %s = full([], 0.25, f32)
  %c = _wrap([%a, %s], "fz_rounded", "", [2,3], [], f32)
  %b = randn([2,3], f32, seed=2)
  %x = _wrap([%c, %b], "fz_pair", "", [2,3], [], f32, requires_grad=true)
  %n = tensor(1, i64)
  call @nest(%x, %n)
  backward create_graph=true
  %g0 = grad %x
  backward %g0 create_graph=true
  %g1 = grad %x
  backward %g1
}
case "custom diag" {
  %a = randn([3], f32, seed=1)
  %x = _wrap([%a], "fz_diag", "", [3,3], [], f32, requires_grad=true)
  %n = tensor(1, i64)
  call @diag(%x, %n)
  backward create_graph=true
  %g0 = grad %x
  backward %g0 create_graph=true
  %g1 = grad %x
  backward %g1
}
case "custom round" {
  %a = randn([2,3], f32, seed=1)
  %s = full([], 0.25, f32)
  %x = _wrap([%a, %s], "fz_rounded", "", [2,3], [], f32, requires_grad=true)
  %n = tensor(1, i64)
  call @round(%x, %n)
  backward create_graph=true
  %g0 = grad %x
  backward %g0 create_graph=true
  %g1 = grad %x
  backward %g1
}
