# A loop refused states of a type. Sums of gradients start as zeros of the type that gradients have.

func @pair(%x: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]) grad, %n) {
  %y, %m = while_loop(func @test(%a: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]), %n: i64[], %x: f32[2,3] of fz_pair("", f32[2,3], f32[2,3])) {
    %c = lt(%n, 4)
    return %c
  }, func @body(%a: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]), %n: i64[], %x: f32[2,3] of fz_pair("", f32[2,3], f32[2,3])) {
    %r = sin(%a)
    %q = mul(%r, %x)
    %k = add(%n, 1)
    return %q, %k
  }, [%x, %n], [%x])
  return %y
}
func @nest(%x: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3]) grad, %n) {
  %y, %m = while_loop(func @test(%a: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3]), %n: i64[], %x: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3])) {
    %c = lt(%n, 4)
    return %c
  }, func @body(%a: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3]), %n: i64[], %x: f32[2,3] of fz_pair("", f32[2,3] of fz_rounded("", f32[2,3], f32[]), f32[2,3])) {
    %r = sin(%a)
    %q = mul(%r, %x)
    %k = add(%n, 1)
    return %q, %k
  }, [%x, %n], [%x])
  return %y
}
func @diag(%x: f32[3,3] of fz_diag("", f32[3]) grad, %n) {
  %y, %m = while_loop(func @test(%a: f32[3,3] of fz_diag("", f32[3]), %n: i64[], %x: f32[3,3] of fz_diag("", f32[3])) {
    %c = lt(%n, 4)
    return %c
  }, func @body(%a: f32[3,3] of fz_diag("", f32[3]), %n: i64[], %x: f32[3,3] of fz_diag("", f32[3])) {
    %r = sin(%a)
    %q = mul(%r, %x)
    %k = add(%n, 1)
    return %q, %k
  }, [%x, %n], [%x])
  return %y
}
func @round(%x: f32[2,3] of fz_rounded("", f32[2,3], f32[]) grad, %n) {
  %y, %m = while_loop(func @test(%a: f32[2,3] of fz_rounded("", f32[2,3], f32[]), %n: i64[], %x: f32[2,3] of fz_rounded("", f32[2,3], f32[])) {
    %c = lt(%n, 4)
    return %c
  }, func @body(%a: f32[2,3] of fz_rounded("", f32[2,3], f32[]), %n: i64[], %x: f32[2,3] of fz_rounded("", f32[2,3], f32[])) {
    %r = sin(%a)
    %q = mul(%r, %x)
    %k = add(%n, 1)
    return %q, %k
  }, [%x, %n], [%x])
  return %y
}
case "while pair" {
  %a = randn([2,3], f32, seed=1)
  %b = randn([2,3], f32, seed=2)
  %x = _wrap([%a, %b], "fz_pair", "", [2,3], [], f32, requires_grad=true)
  %n = tensor(1, i64)
  call @pair(%x, %n)
  backward create_graph=true
  %g0 = grad %x
  backward %g0
}
case "while nest" {
  %a = randn([2,3], f32, seed=1)
  %s = full([], 0.25, f32)
  %c = _wrap([%a, %s], "fz_rounded", "", [2,3], [], f32)
  %b = randn([2,3], f32, seed=2)
  %x = _wrap([%c, %b], "fz_pair", "", [2,3], [], f32, requires_grad=true)
  %n = tensor(1, i64)
  call @nest(%x, %n)
  backward create_graph=true
  %g0 = grad %x
  backward %g0
}
case "while diag" {
  %a = randn([3], f32, seed=1)
  %x = _wrap([%a], "fz_diag", "", [3,3], [], f32, requires_grad=true)
  %n = tensor(1, i64)
  call @diag(%x, %n)
  backward create_graph=true
  %g0 = grad %x
  backward %g0
}
case "while round" {
  %a = randn([2,3], f32, seed=1)
  %s = full([], 0.25, f32)
  %x = _wrap([%a, %s], "fz_rounded", "", [2,3], [], f32, requires_grad=true)
  %n = tensor(1, i64)
  call @round(%x, %n)
  backward create_graph=true
  %g0 = grad %x
  backward %g0
}
