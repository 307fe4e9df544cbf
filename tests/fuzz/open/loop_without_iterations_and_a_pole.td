# Silent: a fixed tensor of a loop that runs no iteration gets a zero gradient, which at a pole becomes NaN; eager gives none.

func @f(%p0) {
  %v7 = logit(%p0)
  %v8 = full([], 0, i64)
  %v9, %v10 = while_loop(func @test(%n: i64[], %a: f32[1,1,1], %b: f32[1,1,1]) {
      return %n
    }, func @body(%n: i64[], %a: f32[1,1,1], %b: f32[1,1,1]) {
      %m = add(%n, 1)
      %r = sub(%b, %a)
      return %m, %r
    }, [%v8, %p0], [%v7])
  return %v10
}
case "seed 154402226" {
  %a1 = randint(-1, 1, [1,1,1], f32, seed=74, requires_grad=true)
  call @f(%a1) control=true
  backward
}
