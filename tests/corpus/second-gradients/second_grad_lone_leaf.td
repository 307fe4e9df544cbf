# A leaf that nothing else references is saved with another geometry.
func @f(%p0: f32[27], %p1: f32[3,1,3,3], %p2: f32[3,3]) {
  %v1 = sub(%p2, 3)
  %v2 = expand(%p2, [3,3])
  %v7 = randint(-3, 4, [3,3,3], f32)
  set_(%v1, %v7, 3, [3,3], none)
  enable_grad {
    %v8 = flatten(%p0, 0, -1)
    acos_(%v1)
    hardswish_(%v1)
  }
  %v10 = log10(%p2)
  %v11 = log_softmax(%v8, -1)
  %v12 = threshold_backward(%p2, %v10, 2)
  %v13 = squeeze_dim(%v11, -1)
  %v14 = cumsum(%v10, 1)
  %v15 = xlogy(%v10, 0.5)
  return %v12
}

case "seed 78099984" {
  %a0 = tensor([1, -1, 2, -2, 1, 0, 1, -1, 2, 2, 3, -2, -2, 2, 2, 3, -2, -1, -2, 1, 0, 3, 0, -1, -2, 3, 3], f32, [3,1,3,3], requires_grad=true)
  no_grad {
    %a1 = reshape(%a0, [3,9])
    %a2 = randn([3,3], f32, seed=74, requires_grad=true)
    %a3 = copy(%a0, %a2)
    %a4 = ravel(%a1)
  }
  call @f(%a4, %a0, %a2)
  backward seed=2 create_graph=true
  %g0 = grad %a2
  backward %g0 create_graph=true
  %g1 = grad %a2
  backward %g1 seed=9
  backward seed=3
}
