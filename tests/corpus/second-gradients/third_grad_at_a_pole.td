# Third gradients beside a pole.

func @f(%p0: f32[1,3,1] @0) {
  %v1 = prod_dim(%p0, -3, true, none)
  %v4 = rand([])
  %v6 = log10_(%v1)
  inference {
    log2_(%v4)
  }
  return  %v6
}
case "seed 77104472" {
  %a2 = randint(-3, 4, [1,3,1], f32, seed=20, requires_grad=true)
  call @f(%a2)
  backward create_graph=true
  %g0 = grad %a2
  backward %g0 seed=2 create_graph=true
  %g1 = grad %a2
  backward %g1 seed=6
}
