# The state of a loop is a constant: every capture closes over the same tensor.

func @f(%x: f32[2]) {
  %k = tensor([-1, 2], f32)
  %zero = full([], 0, i64)
  %n, %y = while_loop(func @test(%n: i64[], %a: f32[2], %b: f32[2]) {
    %t = lt(%n, 2)
    return %t
  }, func @body(%n: i64[], %a: f32[2], %b: f32[2]) {
    %m = add(%n, 1)
    %r = mul(%a, %b)
    return %m, %r
  }, [%zero, %k], [%x])
  %c = tensor([-2, 3], f32)
  sin_(%c)
  return %y
}
case "called twice" {
  %x = randn([2], seed=1, requires_grad=true)
  call @f(%x) control=true
  call @f(%x) control=true
  backward seed=3
}
