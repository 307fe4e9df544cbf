# A fixed tensor of a loop that runs no iteration gets zeros as its gradient; eager gives none.

func @f(%p0: f32[] @0, %p1: f32[] @0) {
  %v17 = full([], 0, i64)
  %v18, %v19 = while_loop(func @test(%n: i64[], %a: f32[], %b: f32[]) {
      return %n
    }, func @body(%n: i64[], %a: f32[], %b: f32[]) {
      %m = add(%n, 1)
      %r = clone(%b)
      return %m, %r
    }, [%v17, %p0], [%p1])
  return %v19
}
case "seed 152003728" {
  %a0 = randn([], f32, seed=88, requires_grad=true)
  no_grad {
    %a2 = as_strided(%a0, [], [], 0)
  }
  call @f(%a2, %a0) control=true
  backward
}
