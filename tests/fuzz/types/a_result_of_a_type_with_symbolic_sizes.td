# A result whose sizes are symbols of another argument was wrapped with the symbols.

func @f(%p0: i64[2,2] of fz_pair("", i64[2,2], i64[2,2] of fz_pair("m", i64[2,2] of fz_pair("m", i64[2,2], i64[2,2]), i64[2,2])), %p2: f32[2,2]) {
  %v1 = eq(%p2, %p0)
  return %v1
}
case "seed 248" {
  %a0 = randint(-2, 2, [2,2], f32,)
  %a2 = full([2,2], 0, i64)
  %a3 = tensor([2, 2, 0, 2], i64, [2,2])
  %a8 = _wrap([%a2, %a3], "fz_pair", "", [2,2], [], i64)
  call @f(%a8, %a0)
}
