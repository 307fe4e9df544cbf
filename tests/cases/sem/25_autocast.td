# 25_autocast.td -- calls inside autocast regions: the group 25 of tests/README.md.

# einsum and log_softmax of mixed dtypes; a compiled graph contains the casts, and they
# are not applied to it once more.
func @mixed(%a: f32[2,3], %b: bf16[3,4]) {
  %m = matmul(%a, %b)
  %s = log_softmax(%m, 1)
  return %s, %m
}
case "test_nonidempotent_amp RG" {
  %a = randn([2,3], seed=1, requires_grad=true)
  %c = randn([3,4], seed=2, requires_grad=true)
  %b = to(%c, bf16)
  call @mixed(%a, %b) autocast=bf16
  backward seed=3
}
case "test_nonidempotent_amp NRG" {
  %a = randn([2,3], seed=1)
  %c = randn([3,4], seed=2)
  %b = to(%c, bf16)
  call @mixed(%a, %b) autocast=bf16
}

func @normalized(%x: bf16[4,2,3], %w: f32[2], %b: f32[2], %mean: f32[2], %var: f32[2]) {
  %y = batch_norm(%x, %w, %b, %mean, %var, true)
  return %y
}
case "test_batch_norm_amp" {
  %h = randn([4,2,3], seed=1)
  %x = to(%h, bf16)
  %w = randn([2], seed=2, requires_grad=true)
  %b = randn([2], seed=3, requires_grad=true)
  %mean = zeros([2])
  %var = ones([2])
  call @normalized(%x, %w, %b, %mean, %var) autocast=bf16
  backward seed=4
}
