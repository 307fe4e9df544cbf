# Silent: in the last iteration state b has no gradient in eager and zeros in compiled code, which sqrt at 0 makes NaN.
func @f(%x: f32[2]) {
  %n = full([], 1, i64)
  %m, %a, %b = while_loop(func @test(%n: i64[], %a: f32[2], %b: f32[2]) {
    %t = gt(%n, 0)
    return %t
  }, func @body(%n: i64[], %a: f32[2], %b: f32[2]) {
    %m = sub(%n, 1)
    %c = add(%a, %b)
    %d = sqrt(%b)
    return %m, %c, %d
  }, [%n, %x, %x], [])
  return %a
}
case "unused" {
  %x = tensor([0, 1], f32, requires_grad=true)
  call @f(%x) control=true
  backward
}
