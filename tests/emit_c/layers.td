# Functions whose C files tests/programs/emit_c.c compiles, runs and compares: every op
# with a C function of its own (kernels/portable*.h), draws, writes, and state.

func @mlp(%x: f32[7,13], %w: f32[13,40], %b: f32[40], %v: f32[40,3]) {
  %h = matmul(%x, %w)
  %a = add(%h, %b)
  %t = gelu(%a)
  %y = matmul(%t, %v)
  %s = softmax(%y, 1)
  return %s
}
case "a network" {
  %x = randn([7,13], seed=1)
  %w = randn([13,40], seed=2, requires_grad=true)
  %b = randn([40], seed=3, requires_grad=true)
  %v = randn([40,3], seed=4, requires_grad=true)
  call @mlp(%x, %w, %b, %v)
}

func @batches(%q: f64[2,5,9], %k: f64[2,9,33]) {
  %p = bmm(%q, %k)
  %t = transpose(%p, 1, 2)
  %n = norm(%p, 2.0, [1])
  return %t, %n
}
case "products of batches" {
  %q = randn([2,5,9], f64, seed=1, requires_grad=true)
  %k = randn([2,9,33], f64, seed=2, requires_grad=true)
  call @batches(%q, %k)
}

func @attention(%q: f32[2,2,6,4], %k: f32[2,2,6,4], %v: f32[2,2,6,4]) {
  %y = scaled_dot_product_attention(%q, %k, %v, none, 0.0, true)
  return %y
}
case "attention" {
  %q = randn([2,2,6,4], seed=1, requires_grad=true)
  %k = randn([2,2,6,4], seed=2, requires_grad=true)
  %v = randn([2,2,6,4], seed=3, requires_grad=true)
  call @attention(%q, %k, %v)
}

func @images(%x: f32[2,4,9,8], %w: f32[6,2,3,3], %b: f32[6]) {
  %c = conv2d(%x, %w, %b, [2,1], [1], [1,2], 2)
  %r = relu(%c)
  %p = max_pool2d(%r, [2], [1], [1])
  return %p
}
case "a convolution in groups, and a pool" {
  %x = randn([2,4,9,8], seed=1, requires_grad=true)
  %w = randn([6,2,3,3], seed=2, requires_grad=true)
  %b = randn([6], seed=3, requires_grad=true)
  call @images(%x, %w, %b)
}

func @lengths(%x: f32[2,4,9], %w: f32[6,2,3], %b: f32[6], %u: f32[6,2,4]) {
  %c = conv1d(%x, %w, %b, [2], [1], [1], 2)
  %d = conv_transpose1d(%c, %u, none, [3], [2], [1], 3, [2])
  return %d
}
case "convolutions of lengths, one of them transposed" {
  %x = randn([2,4,9], seed=1, requires_grad=true)
  %w = randn([6,2,3], seed=2, requires_grad=true)
  %b = randn([6], seed=3, requires_grad=true)
  %u = randn([6,2,4], seed=4, requires_grad=true)
  call @lengths(%x, %w, %b, %u)
}

func @volumes(%x: f64[2,2,4,5,6], %w: f64[4,2,2,3,2], %u: f64[4,3,2,1,3], %b: f64[3]) {
  %c = conv3d(%x, %w, none, [1,2,1], [1,0,1], [2,1,1])
  %d = conv_transpose3d(%c, %u, %b, [2,1,2], [0,0,1], [1,0,0])
  return %d
}
case "convolutions of volumes, one of them transposed" {
  %x = randn([2,2,4,5,6], f64, seed=1, requires_grad=true)
  %w = randn([4,2,2,3,2], f64, seed=2, requires_grad=true)
  %u = randn([4,3,2,1,3], f64, seed=3, requires_grad=true)
  %b = randn([3], f64, seed=4, requires_grad=true)
  call @volumes(%x, %w, %u, %b)
}

func @indices(%x: f32[5,4], %i: i64[5,2], %j: i64[3], %e: i64[2,3]) {
  %a = gather(%x, 1, %i)
  %b = index_select(%x, 0, %j)
  %c = scatter_add(%x, 1, %i, %a)
  %d = scatter(%x, 1, %i, %a)
  %f = embedding(%x, %e)
  %g = cat([%a, %x], 1)
  %h = stack([%b, %b], 1)
  return %a, %b, %c, %d, %f, %g, %h
}
case "indices" {
  %x = randn([5,4], seed=1, requires_grad=true)
  %i = randint(0, 4, [5,2], i64, seed=2)
  %j = randint(0, 5, [3], i64, seed=3)
  %e = randint(0, 5, [2,3], i64, seed=4)
  call @indices(%x, %i, %j, %e)
}

func @moves(%x: f32[3,4], %m: i64[3,4]) {
  %a = flip(%x, [0, 1])
  %b = roll(%x, [1, -1], [0, 1])
  %c = roll(%m, [5])
  %d = tril(%x, 1)
  %e = triu(%m)
  %f = repeat(%x, [2, 1, 2])
  %g = constant_pad_nd(%x, [1, 2, 0, 1], 0.5)
  %h = cumsum(%x, 1)
  %i, %j = max_dim(%x, 0)
  %k = select_scatter(%x, %i, 0, 1)
  %l = slice_scatter(%x, %d, 0, 0, 3)
  return %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k, %l
}
case "moves" {
  %x = randn([3,4], seed=1, requires_grad=true)
  %m = randint(-9, 9, [3,4], i64, seed=2)
  call @moves(%x, %m)
}

func @writes(%x: f32[4,3], %n: i64[2], %s: f64[]) {
  add_(%x, 1.0)
  %t = transpose(%x, 0, 1)
  mul_(%t, 2.0)
  add_(%n, 3)
  %m = mean(%x)
  copy_(%s, %m)
  %v = view(%x, [12])
  return %v, %m
}
case "arguments that are written" {
  %x = randn([4,3], seed=1)
  %n = randint(0, 5, [2], i64, seed=2)
  %s = randn([], f64, seed=3)
  call @writes(%x, %n, %s)
}

func @draws(%x: f32[33]) {
  %a = dropout(%x, 0.5, true)
  %b = randn([19], f32)
  %c = rand_like(%x)
  return %a, %b, %c
}
case "random numbers" {
  %x = randn([33], seed=1, requires_grad=true)
  call @draws(%x)
}

func @norms(%x: f32[6,300], %w: f32[300], %b: f32[300]) {
  %y = layer_norm(%x, [300], %w, %b)
  %v = var(%y)
  %s = logsumexp(%y, [0])
  %e = eq(%x, 0.0)
  return %y, %v, %s, %e
}
case "norms" {
  %x = randn([6,300], seed=1, requires_grad=true)
  %w = randn([300], seed=2, requires_grad=true)
  %b = randn([300], seed=3, requires_grad=true)
  call @norms(%x, %w, %b)
}

func @halves(%x: bf16[9], %y: f16[9], %z: bool[9]) {
  %a = mul(%x, 3.0)
  %b = exp(%y)
  %c = logical_not(%z)
  %d = sum(%a)
  return %a, %b, %c, %d
}
case "halves and bools" {
  %x = randn([9], bf16, seed=1)
  %y = randn([9], f16, seed=2)
  %z = gt(%x, 0.0)
  call @halves(%x, %y, %z)
}

func @lookups(%x: f32[4,3,5], %i: i64[2,1], %j: i64[3], %v: f32[3]) {
  %a = index(%x, [%i, %j])
  %b = index(%x, [none, %j])
  %c = index(%x, [%i, none, %j])
  %d = index_put(%x, [%j, %j, %j], %v, true)
  return %a, %b, %c, %d
}
case "several index tensors" {
  %x = randn([4,3,5], seed=1, requires_grad=true)
  %i = tensor([3, -1], i64, [2,1])
  %j = tensor([0, 2, 1], i64, [3])
  %v = randn([3], seed=2, requires_grad=true)
  call @lookups(%x, %i, %j, %v)
}
