# Backward reads a size before the tensor of that size is recomputed.

func @unique(%p0: f64[4,2]) {
  %v0 = tanh(%p0)
  %v1, %v2, %v3 = unique(%v0, false, false)
  %v7, %v8 = min_dim(%v1, 0)
  return %v7
}
func @empty(%p0: f32[0,2,0,2]) {
  %v3, %v4, %v5 = unique(%p0, true, true)
  %v6 = view(%v3, [0])
  %v7 = bernoulli(%v3)
  return %v6
}
case "unique" {
  %a = randn([4,2], f64, seed=5, requires_grad=true)
  call @unique(%a)
  backward
}
case "empty" {
  %a = full([0,2,0,2], 0, f32, requires_grad=true)
  call @empty(%a)
  backward seed=2
}
