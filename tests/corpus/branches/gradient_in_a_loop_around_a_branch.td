# With grads=true the gradient requires grad, as after other iterations, and its own is 0.

func @f(%p0: f32[3]) {
  %v4 = full([], 0, i64)
  %v5, %v6 = while_loop(func @test(%n: i64[], %a: f32[3], %b: f32[3]) {
      %t = lt(%n, 1)
      return %t
    }, func @body(%n: i64[], %a: f32[3], %b: f32[3]) {
      %m = add(%n, 1)
      %t = cond(%n, func @in(%c: f32[3], %d: f32[3]) {
        %k = mul(%c, %d)
        return %k
      }, func @out(%c: f32[3], %d: f32[3]) {
        return %c
      }, [%a, %b])
      return %m, %t
    }, [%v4, %p0], [%p0])
  return %v6
}
case "seed 1420198944" {
  %a0 = full([3,3], 0, f32, requires_grad=true)
  %a9... = unbind(%a0, -1)
  call @f(%a9.2) grads=true control=true body=true
  backward
}
