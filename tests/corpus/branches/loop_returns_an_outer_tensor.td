# Refused: eager's loop returns a tensor from outside itself, which a write changes.

func @f(%x: f32[2], %k: f32[2]) {
  %zero = full([], 0, i64)
  %n, %y = while_loop(func @test(%n: i64[], %a: f32[2], %b: f32[2]) {
    %t = lt(%n, 1)
    return %t
  }, func @body(%n: i64[], %a: f32[2], %b: f32[2]) {
    %m = add(%n, 1)
    return %m, %b
  }, [%zero, %x], [%k])
  mul_(%y, 2)
  return %y, %k
}
case "written afterwards" {
  %x = randn([2], seed=1)
  %k = randn([2], seed=2)
  call @f(%x, %k) control=true
}
