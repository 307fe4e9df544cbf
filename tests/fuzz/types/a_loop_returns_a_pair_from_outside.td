# An inner tensor of a fixed operand was the new state, and was freed with it.

func @f(%p0: f32[1,2], %p4: f32[2,2] of fz_pair("", f32[2,2] of fz_pair("m", f32[2,2], f32[2,2] of fz_rounded("", f32[2,2], f32[])), f32[2,2] of fz_rounded("m", f32[2,2], f32[]))) {
  %v1 = sum(%p0)
  %v2, %v3 = cond(%v1, func @yes(%a: f32[2,2]) {
      return %a, %a
    }, func @no(%a: f32[2,2] grad) {
      return %a, %a
    }, [%p4])
  %v23 = full([], 0, i64)
  %v24, %v25 = while_loop(func @test(%n: i64[], %a: f32[2,2], %b: f32[2,2]) {
      %t = lt(%n, 2)
      return %t
    }, func @body(%n: i64[], %a: f32[2,2], %b: f32[2,2]) {
      %m = add(%n, 1)
      return %m, %b
    }, [%v23, %v2], [%v3])
  return %v25
}
case "seed 1700002726" {
  %a4 = randint(-2, 2, [2,2], f32,)
  %a9 = randint(-2, 2, [2,2], f32,)
  %a12 = _wrap([%a4, %a9], "fz_pair", "", [2,2], [], f32, requires_grad=true)
  %a15 = randint(-2, 2, [2,1], f32,)
  %a16 = matrix_H(%a15)
  call @f(%a16, %a12)
  backward
}
