# higher.td -- gradients of gradients through compiled functions.

func @w(%x: f32[3], %y: f32[3]) {
  mul_(%x, %y)
  %a = mul(%x, %x)
  %b = sin(%a)
  return %b
}
case "third order, a written input" {
  %x0 = randn([3], seed=1, requires_grad=true)
  %x = mul(%x0, 2.0)
  %y = randn([3], seed=2, requires_grad=true)
  call @w(%x, %y)
  backward seed=3 create_graph=true
  %g = grad %x0
  %h = grad %y
  backward %g, %h create_graph=true
  %g2 = grad %x0
  backward %g2
}

func @normed(%x: f32[2,4], %w: f32[4], %b: f32[4]) {
  %y = layer_norm(%x, [4], %w, %b)
  return %y
}
case "third order through layer norm" {
  %x = randn([2,4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  %b = randn([4], seed=3, requires_grad=true)
  call @normed(%x, %w, %b)
  backward seed=4 create_graph=true
  %g = grad %x
  backward %g seed=5 create_graph=true
  %h = grad %w
  backward %h seed=6
}
