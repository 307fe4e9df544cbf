# A third gradient reads a size of an input that nothing saved.

func @f(%p0: f32[] @0, %p1: i64[2] @1) {
  %v0 = addcmul(%p0, %p1, %p1, -1)
  leaky_relu_(%v0, false)
  return %v0
}
case "sizes of primals twice" {
  %a0 = randn([], f32, seed=84, requires_grad=true)
  %a2 = randint(-2, 2, [2], i64,)
  call @f(%a0, %a2)
  backward create_graph=true
  %g0 = grad %a0
  backward %g0 create_graph=true
}
