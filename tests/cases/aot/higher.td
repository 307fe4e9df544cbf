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
