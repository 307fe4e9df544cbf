# The check took zeros of a type for a gradient: the loop has no iterations, and the compiled gradient requires grad without effect.

func @f(%p0: f32[] of fz_pair("m", f32[], f32[]) @0, %p1: f32[1] @1) {
  %v18 = copy(%p1, %p0, true)
  %v23 = full([], 0, i64)
  %v24, %v25 = while_loop(func @test(%s: i64[], %a: f32[1]) {
      return %s
    }, func @body(%s: i64[], %a: f32[1]) {
      %r = sin(%a)
      return %s, %r
    }, [%v23, %p1], [])
  return %v18, %v25
}
func @g(%q0: f32[1], %q1: f32[1]) {
  return 
}
case "seed 2300189514" {
  %a0 = tensor([-1], f32, [])
  %a1 = randint(-1, 1, [1], f32, seed=24, requires_grad=true)
  %a2 = randint(-1, 1, [], f32,)
  %a3 = _wrap([%a2, %a0], "fz_pair", "m", [], [], f32)
  call @f(%a3, %a1) grads=true control=true body=true
}
