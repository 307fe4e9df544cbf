# A loop that runs no iteration returns its initial state, with its history.

func @f(%x: f32[2]) {
  %zero = full([], 0, i64)
  %n, %y = while_loop(func @test(%n: i64[], %a: f32[2]) {
    %t = lt(%n, 0)
    return %t
  }, func @body(%n: i64[], %a: f32[2]) {
    %m = add(%n, 1)
    %d = detach(%a)
    return %m, %d
  }, [%zero, %x], [])
  return %y
}
case "the body would detach it" {
  %x = randn([2], seed=1, requires_grad=true)
  call @f(%x) control=true
  backward seed=2
}
