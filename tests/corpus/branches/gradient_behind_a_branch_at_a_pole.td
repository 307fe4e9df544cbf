# The gradient of a loop whose branch returns its operand requires grad in compiled code, as the
# other branch multiplies. Its own gradient is zero, and NaN behind sqrt at 0: the comparison took
# that for a difference of histories.

func @f(%x: f32[1,1]) {
  %zero = full([], 0, i64)
  %n, %y = while_loop(func @test(%n: i64[], %a: f32[1,1], %b: f32[1,1]) {
      %t = lt(%n, 1)
      return %t
    }, func @body(%n: i64[], %a: f32[1,1], %b: f32[1,1]) {
      %m = add(%n, 1)
      %t = cond(%n, func @in(%c: f32[1,1], %d: f32[1,1]) {
          %k = mul(%c, %d)
          return %k
        }, func @out(%c: f32[1,1], %d: f32[1,1]) {
          return %c
        }, [%a, %b])
      return %m, %t
    }, [%zero, %x], [%x])
  return %y
}

case "a gradient behind a branch at a pole" {
  %a = full([1,1], 0, f32, requires_grad=true)
  %b = sqrt(%a)
  call @f(%b) grads=true control=true
}
