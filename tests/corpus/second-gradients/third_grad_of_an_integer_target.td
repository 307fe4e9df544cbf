# Third gradients through floats that a loss makes of integers.

func @f(%p0: f64[2]) {
  %v9 = randint(0, 2, [2], i64)
  %v13 = bce_with_logits(%p0, %v9, %p0, %p0, "mean")
  return %v13
}
case "seed 134101432" {
  %a0 = randn([2], f64, seed=38, requires_grad=true)
  %a2... = chunk(%a0, 1, 0)
  call @f(%a2.0)
  backward create_graph=true
  %g0 = grad %a0
  backward %g0 create_graph=true
  %g1 = grad %a0
  backward %g1 seed=5
}
