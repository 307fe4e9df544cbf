# The second call is the first's program, although its argument has been written since.

func @f(%x: f32[2]) {
  %zero = full([], 0, i64)
  %n, %y = while_loop(func @test(%n: i64[], %a: f32[2]) {
    %t = lt(%n, 1)
    return %t
  }, func @body(%n: i64[], %a: f32[2]) {
    %m = add(%n, 1)
    %r = mul(%a, 2)
    return %m, %r
  }, [%zero, %x], [])
  mul_(%x, 3)
  return %y
}
case "called twice" {
  %x = randn([2], seed=1)
  call @f(%x) control=true
  call @f(%x) control=true
}
