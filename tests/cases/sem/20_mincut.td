# 20_mincut.td -- functions of the rows about partitioning: the group 20 of
# tests/README.md. What is kept of them is in the golden files.

func @sin_sin(%a: f32[4], %b: f32[4]) {
  %s = sin(%a)
  %t = sin(%s)
  %y = add(%t, %b)
  return %y
}
case "test_recompute_partitioning RG" {
  %a = randn([4], seed=1, requires_grad=true)
  %b = randn([4], seed=2, requires_grad=true)
  call @sin_sin(%a, %b)
  backward seed=3
}

func @cosines(%x: f32[4]) {
  %a = cos(%x)
  %b = cos(%a)
  %y = cos(%b)
  return %y
}
case "test_min_cut_partitioner one input" {
  %x = randn([4], seed=1, requires_grad=true)
  call @cosines(%x)
  backward seed=3
}
func @sum_cosines(%a: f32[4], %b: f32[4], %c: f32[4], %d: f32[4]) {
  %ab = add(%a, %b)
  %abc = add(%ab, %c)
  %x = add(%abc, %d)
  %p = cos(%x)
  %y = cos(%p)
  return %y
}
case "test_min_cut_partitioner four inputs" {
  %a = randn([4], seed=1, requires_grad=true)
  %b = randn([4], seed=2, requires_grad=true)
  %c = randn([4], seed=3, requires_grad=true)
  %d = randn([4], seed=4, requires_grad=true)
  call @sum_cosines(%a, %b, %c, %d)
  backward seed=5
}

func @gelu_bias(%b: f32[4], %y: f32[3,4]) {
  %x = add(%b, %y)
  %c = mul(%x, 0.044715)
  %xc = mul(%c, %x)
  %p = add(%xc, 1.0)
  %i = mul(%x, 0.79788456)
  %j = mul(%i, %p)
  %t = tanh(%j)
  %u = add(%t, 1.0)
  %h = mul(%x, 0.5)
  %g = mul(%h, %u)
  return %g
}
case "test_gelu_bias" {
  %b = randn([4], seed=1, requires_grad=true)
  %y = randn([3,4], seed=2, requires_grad=true)
  call @gelu_bias(%b, %y)
  backward seed=3
}

func @mish(%x: f32[3,4]) {
  %e = exp(%x)
  %p = add(%e, 1.0)
  %l = log(%p)
  %t = tanh(%l)
  %y = mul(%x, %t)
  return %y
}
case "test_mish" {
  %x = randn([3,4], seed=1, requires_grad=true)
  call @mish(%x)
  backward seed=3
}

func @swish(%x: f32[3,4]) {
  %s = sigmoid(%x)
  %y = mul(%x, %s)
  return %y
}
case "test_swish" {
  %x = randn([3,4], seed=1, requires_grad=true)
  call @swish(%x)
  backward seed=3
}

func @hard_sigmoid(%x: f32[3,4]) {
  %p = add(%x, 3.0)
  %c = clamp(%p, 0.0, 6.0)
  %y = div(%c, 6.0)
  return %y
}
case "test_hard_sigmoid" {
  %x = randn([3,4], seed=1, requires_grad=true)
  call @hard_sigmoid(%x)
  backward seed=3
}

func @hard_swish(%x: f32[3,4]) {
  %p = add(%x, 3.0)
  %c = clamp(%p, 0.0, 6.0)
  %m = mul(%x, %c)
  %y = div(%m, 6.0)
  return %y
}
case "test_hard_swish" {
  %x = randn([3,4], seed=1, requires_grad=true)
  call @hard_swish(%x)
  backward seed=3
}

func @norm(%x: f32[3,4], %w: f32[4], %b: f32[4]) {
  %m = mean(%x, [-1], true)
  %c = sub(%x, %m)
  %q = mul(%c, %c)
  %v = mean(%q, [-1], true)
  %e = add(%v, 1e-05)
  %r = rsqrt(%e)
  %n = mul(%c, %r)
  %s = mul(%n, %w)
  %y = add(%s, %b)
  return %y
}
case "test_layer_norm by hand" {
  %x = randn([3,4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  %b = randn([4], seed=3, requires_grad=true)
  call @norm(%x, %w, %b)
  backward seed=4
}

func @rms(%x: f32[3,4], %w: f32[4]) {
  %q = mul(%x, %x)
  %v = mean(%q, [-1], true)
  %e = add(%v, 1e-05)
  %r = rsqrt(%e)
  %n = mul(%x, %r)
  %y = mul(%n, %w)
  return %y
}
case "test_rmsnorm" {
  %x = randn([3,4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  call @rms(%x, %w)
  backward seed=4
}
