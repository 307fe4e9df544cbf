# Which of two NaNs a product returns is unspecified: their bits, read as integers, are not compared.

func @f(%p0: f32[2,2,2]) {
  %v0 = xlogy_(%p0, %p0)
  cumprod_(%p0, 2, f32)
  return 
}
case "bits of NaN" {
  %a0 = randint(-2, 2, [2,2,2], i64,)
  %a1... = chunk(%a0, 2, -1)
  %a3 = view_dtype(%a1.1, f32)
  call @f(%a3)
}
