# The new value of a written pair had other inner strides than eager's.

func @f( %p2: f32[2,4] of fz_pair("m", f32[2,4] of fz_rounded("", f32[2,4], f32[]), f32[2,4]{1,2}) @2) {
  %v1 = randn([2,4], f32)
  %v9 = randint_like(%p2, 0, 4, none)
  %v13 = randint(0, 2, [2,4], i64)
  %v14 = scatter_reduce_(%v9, 0, %v13, %v1, "amax", false)
  return  %v9
}
case "seed 1723" {
  %a6 = randn([2,4], f32,)
  %a9 = tensor([2, 0, 2, 2, -2, 1, 1, 2], f32, [2,4])
  %a10 = transpose(%a9, 0, 1)
  %a11 = contiguous(%a10)
  %a12 = transpose(%a11, 0, 1)
  %a13 = _wrap([%a6, %a12], "fz_pair", "m", [2,4], [], f32)
  call @f( %a13)
}
