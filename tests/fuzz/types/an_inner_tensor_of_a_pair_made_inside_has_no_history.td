# _inner of a pair that the body made was the value it was made of, with its history.

func @f( %p1: f32[1,3]) {
    %v3 = cumprod(%p1, -1, f32)
  %v7 = mul(%v3, 1)
  %v9 = _wrap([%v7, %v3], "fz_pair", "", [1,3], [], f32)
  %v11 = _inner(%v9, 1)
  %v12 = mul(%v11, 1)
  %v18 = neg(%p1)
  return %v12
}
case "seed 89" {
  %a2 = randint(-3, 1, [1], i64,)
  %a6 = randint(-3, 1, [1,1], i16,)
    %a9 = unfold(%a6, -1, 1, 1)
    %a10 = randn([1,3], f32, seed=64, requires_grad=true)
  call @f( %a10)
}
