# Terms of a third gradient cancel: in f32 a compiled one is off by 7e-4, in f64 by 7e-12.

func @f(%p0: f32[1,3,1]) {
  %v2 = addcdiv(%p0, %p0, %p0, -1)
  return  %v2
}
case "seed 330016728" {
  %a0 = randn([1,3,1], f32, seed=3, requires_grad=true)
  call @f(%a0)
  backward create_graph=true
  %g0 = grad %a0
  backward %g0 create_graph=true
  %g1 = grad %a0
  backward %g1
}
