# Batch norm writes a leaf that requires grad as a running statistic: eager does not fail.

func @f(%p0: f32[1]) {
  %v12 = randint(0, 1, [1], bool)
  %v13 = masked_fill(%p0, %v12, -1.5)
  %v17 = randint(-1, 1, [1,1,1], f32)
  %v18, %v19, %v20 = _batch_norm_train(%v17, none, %v13, %v13, %p0, 0.5, 1.0000000000000001e-05)
  return 
}
case "seed 84010879" {
  %a1 = randn([1], f32, seed=1, requires_grad=true)
  call @f(%a1)
}
