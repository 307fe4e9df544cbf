# The second iteration gives a history to states that have none after the first: gradients reach %w through them.

func @f(%n: i64[], %x: f32[3], %a: f32[3], %b: f32[3], %w: f32[3]) {
  %m, %y, %c, %d = while_loop(func @test(%n: i64[], %x: f32[3], %a: f32[3], %b: f32[3], %w: f32[3]) {
    %t = gt(%n, 0)
    return %t
  }, func @body(%n: i64[], %x: f32[3], %a: f32[3], %b: f32[3], %w: f32[3]) {
    %m = sub(%n, 1)
    %y = mul(%x, %w)
    %c = add(%a, %x)
    %d = add(%b, %a)
    return %m, %y, %c, %d
  }, [%n, %x, %a, %b], [%w])
  return %y, %c, %d
}
case "three iterations" {
  %x = randn([3], seed=1)
  %a = randn([3], seed=2)
  %b = randn([3], seed=3)
  %w = randn([3], seed=4, requires_grad=true)
  %n = tensor([3], i64, [])
  call @f(%n, %x, %a, %b, %w) control=true
  backward seed=3
}
