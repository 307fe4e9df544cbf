# The same, where writes stay in the graph and sizes may vary.

func @f(%p0: f64[3,2] grad @0, %p1: f64[3,2] grad @0) {
  %v0 = _scale(%p0, 0.75)
  square_(%v0)
  hardtanh_(%v0, -1, true)
  %v1 = transpose(%p0, 1, -2)
  relu6_(%v0)
  %v2 = mish(%p1)
  %v3, %v4, %v5 = unique(%v0, false)
  no_grad {
    log_(%v1)
  }
  return %v3, %v4, %v2
}

case "seed 91588902" {
  %a0 = randn([3,2], f64, seed=7, requires_grad=true)
  %a1 = transpose(%a0, 1, -1)
  call @f(%a1, %a0) module=eval
  call @f(%a1, %a0) module=eval
}
