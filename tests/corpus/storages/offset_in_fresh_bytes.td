# Results that share storage have eager's offsets.

func @f(%p0: f32[1,4]) {
  %v2 = to(%p0, i64, true)
  %v4 = randint(0, 4, [4], i64)
  set_(%v2, %v4, 1, [2,2])
  %v8 = threshold_(%v2, 0, 0)
  %v9 = full([1,2,2], 2, f32)
  %v10 = squeeze_dims_inverse(%v9, %v8, [2,0])
  return %v10, %v8
}

case "seed 105862" {
  %a1 = randn([1,2], f64)
  %a2 = view_dtype(%a1, f32)
  call @f(%a2)
}
