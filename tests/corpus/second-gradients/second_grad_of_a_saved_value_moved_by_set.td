# A value that set_ moved after it was saved: backward fails, eager and compiled.

func @f(%p0: f32[1,1,1,0] @0) {
  %v0 = softplus(%p0, -1, -1)
  sqrt_(%v0)
  %v1 = softplus(%v0)
  %v4 = randint(-1, 1, [1,1,1,0], f32)
  set_(%v0, %v4, 0, [0])
  return %v1
}
case "seed 142129618" {
  %a0 = full([1,1,1,0], 1, f32, requires_grad=true)
  call @f(%a0)
  backward create_graph=true
  %g0 = grad %a0
  backward %g0
}
