# Sizes of windows are numbers for kernels and rules: a symbol is fixed by a guard.
func @f(%x, %k) {
  %y = lp_pool2d(%x, 2, [%k])
  %z = avg_pool2d(%x, [%k], [1], [0], true)
  %w, %i = max_pool2d_with_indices(%x, [3], [%k])
  return %y, %z, %w
}
case "windows of varying sizes" {
  %a = randn([1,1,6,6], f32, seed=3, requires_grad=true)
  call @f(%a, 2) body=true
  backward
  call @f(%a, 3) body=true
  backward
  call @f(%a, 4) body=true
}
