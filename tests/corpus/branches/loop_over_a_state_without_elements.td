# The gradient of a state without elements is an expanded tensor, whose strides show nothing.

func @f(%n: i64[], %x: f32[0,2]) {
  %m, %y = while_loop(func @test(%n: i64[], %a: f32[0,2]) {
    %t = gt(%n, 0)
    return %t
  }, func @body(%n: i64[], %a: f32[0,2]) {
    %m = sub(%n, 1)
    mul_(%a, 1.5)
    return %m, %a
  }, [%n, %x], [])
  return %y
}
case "no iteration and two" {
  %x = randn([0,2], seed=1, requires_grad=true)
  %none = tensor([0], i64, [])
  %two = tensor([2], i64, [])
  %y = call @f(%none, %x) control=true
  %s = sum(%y)
  backward %s
  %y = call @f(%two, %x) control=true
  %s = sum(%y)
  backward %s
}
