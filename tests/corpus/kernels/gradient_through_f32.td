# Sums in another order, in f32, inside a gradient of f64.

func @f(%p0: f64[2,2]) {
  %v0 = log_softmax(%p0, 1, f32)
  %v1... = unbind(%v0, -2)
  %v2 = flip(%v1.0, [-1])
  return %v2, %v0, %v1.0
}
case "gradient through f32" {
  %a0 = randint(-2, 2, [2,2], f64, seed=71, requires_grad=true)
  call @f(%a0)
  backward seed=6
}
