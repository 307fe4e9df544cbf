# The geometry of a leaf is written inside the body; gradients of its gradients.

func @turned(%p: f32[2,3]) {
  no_grad {
    t_(%p)
  }
  %y = tanh(%p)
  return %y
}
func @twice(%p: f32[2,3], %q: f32[3,2]) {
  no_grad {
    t_(%p)
    unsqueeze_(%p, 0)
  }
  %y = mul(%p, %q)
  %z = mul(%y, %p)
  return %z
}
func @cut(%p: f32[4], %q: f32[2]) {
  no_grad {
    as_strided_(%p, [2], [2], 1)
  }
  %y = mul(%p, %q)
  %z = exp(%y)
  return %z
}
case "reshaped" {
  %a = randn([2,3], seed=1, requires_grad=true)
  call @turned(%a)
  backward create_graph=true
  %g = grad %a
  backward %g
}
case "twice" {
  %a = randn([2,3], seed=1, requires_grad=true)
  %b = randn([3,2], seed=2, requires_grad=true)
  call @twice(%a, %b)
  backward create_graph=true
  %g = grad %b
  backward %g
}
case "cut" {
  %a = randn([4], seed=1, requires_grad=true)
  %b = randn([2], seed=2, requires_grad=true)
  call @cut(%a, %b)
  backward create_graph=true
  %g = grad %a
  backward %g
}

func @square(%p: f32[2,2], %q: f32[2,2]) {
  no_grad {
    t_(%p)
  }
  %y = mul(%p, %q)
  %z = exp(%y)
  return %z
}
case "square" {
  %a = randn([2,2], seed=1, requires_grad=true)
  %b = randn([2,2], seed=2, requires_grad=true)
  call @square(%a, %b)
  backward create_graph=true
  %g = grad %a
  backward %g
}
