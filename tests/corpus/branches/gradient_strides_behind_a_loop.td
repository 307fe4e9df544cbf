# A gradient that passes a loop without iterations has the strides of the incoming one in eager, and is row-major in a compiled function.

func @f(%x) {
  %n = full([], 0, i64)
  %m, %a, %b = while_loop(func @test(%n: i64[], %a: f32[2,2], %b: f32[2,2]) {
      return %n
    }, func @body(%n: i64[], %a: f32[2,2], %b: f32[2,2]) {
      %m = add(%n, 1)
      return %m, %a, %b
    }, [%n, %x, %x], [])
  %c = tensor([1, 2, 0, 4], f32, [2,2])
  %y, %d = triangular_solve(%b, %c, true)
  return %y
}
case "the gradient of a solve behind a loop" {
  %x = tensor([2, 3, 5, 7], f32, [2,2], requires_grad=true)
  call @f(%x) grads=true control=true
}
