# An unsupported dtype is an error before anything runs, also where nothing reads the result.

func @f(%p2: i64[3,3]) {
  %v1... = split(%p2, 1)
  %v5 = randint(-3, 4, [3,3,3], i64)
  leaky_relu_backward(%v1.1, %v5, true, true)
  return %v1.2, %v5
}
case "dead dtype refused" {
  %a0 = randint(-3, 4, [3,3], i64, seed=33)
  call @f(%a0)
}
