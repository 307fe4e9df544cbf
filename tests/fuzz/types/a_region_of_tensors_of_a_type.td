# A region with tensors of a type was inlined.

func @pair(%x: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]) grad, %n) {
  %z = region(func @r_pair(%a: f32[2,3] of fz_pair("", f32[2,3], f32[2,3])) {
    %v = sin(%a)
    %w = mul(%v, %a)
    return %w
  }, [%x])
  %y = region(@r_pair, [%z])
  return %y
}
func @nest(%x: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3]) grad, %n) {
  %z = region(func @r_nest(%a: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3])) {
    %v = sin(%a)
    %w = mul(%v, %a)
    return %w
  }, [%x])
  %y = region(@r_nest, [%z])
  return %y
}
func @diag(%x: f32[3,3] of fz_diag("", f32[3]) grad, %n) {
  %z = region(func @r_diag(%a: f32[3,3] of fz_diag("", f32[3])) {
    %v = sin(%a)
    %w = mul(%v, %a)
    return %w
  }, [%x])
  %y = region(@r_diag, [%z])
  return %y
}
func @round(%x: f32[2,3] of fz_rounded("", f32[2,3], f32[]) grad, %n) {
  %z = region(func @r_round(%a: f32[2,3] of fz_rounded("", f32[2,3], f32[])) {
    %v = sin(%a)
    %w = mul(%v, %a)
    return %w
  }, [%x])
  %y = region(@r_round, [%z])
  return %y
}
case "region pair" {
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
case "region nest" {
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
case "region diag" {
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
case "region round" {
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
