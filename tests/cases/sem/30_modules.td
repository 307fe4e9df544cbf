# 30_modules.td -- networks with their parameters as inputs: the group 30 of
# tests/README.md.

func @sequential(%x: f32[5,3], %w0: f32[4,3] <param "0.weight">,
                 %b0: f32[4] <param "0.bias">, %w1: f32[2,4] <param "2.weight">,
                 %b1: f32[2] <param "2.bias">) {
  %h = linear(%x, %w0, %b0)
  %r = relu(%h)
  %y = linear(%r, %w1, %b1)
  return %y
}
case "test_module RG" {
  %x = randn([5,3], seed=1)
  %w0 = randn([4,3], seed=2, requires_grad=true)
  %b0 = randn([4], seed=3, requires_grad=true)
  %w1 = randn([2,4], seed=4, requires_grad=true)
  %b1 = randn([2], seed=5, requires_grad=true)
  call @sequential(%x, %w0, %b0, %w1, %b1)
  backward seed=6
}

func @norm2d(%x: f32[4,3,2,2], %w: f32[3] <param "weight">, %b: f32[3] <param "bias">,
             %m: f32[3] <buffer "running_mean">, %v: f32[3] <buffer "running_var">,
             %n: i64[] <buffer "num_batches_tracked">) {
  add_(%n, 1)
  %y = batch_norm(%x, %w, %b, %m, %v, true)
  return %y
}
case "test_batchnorm RG" {
  %x = randn([4,3,2,2], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  %b = randn([3], seed=3, requires_grad=true)
  %m = zeros([3])
  %v = ones([3])
  %n = tensor(0)
  call @norm2d(%x, %w, %b, %m, %v, %n)
  backward seed=4
  call @norm2d(%x, %w, %b, %m, %v, %n)
  backward seed=5
}

func @linear_plus(%w: f32[4,3] <param "weight">, %b: f32[4] <param "bias">,
                  %x: f32[2,3], %y: f32[2,4]) {
  %h = linear(%x, %w, %b)
  %z = add(%h, %y)
  return %z
}
case "test_aot_module_simplified RG" {
  %w = randn([4,3], seed=1, requires_grad=true)
  %b = randn([4], seed=2, requires_grad=true)
  %x = randn([2,3], seed=3, requires_grad=true)
  %y = randn([2,4], seed=4, requires_grad=true)
  call @linear_plus(%w, %b, %x, %y)
  backward seed=5
}

func @block(%x: f32[2,3,4,4], %w1: f32[3,3,3,3], %g1: f32[3], %b1: f32[3],
            %m1: f32[3], %v1: f32[3], %w2: f32[3,3,3,3], %fc: f32[2,3]) {
  %c = conv2d(%x, %w1, none, [1], [1])
  %n = batch_norm(%c, %g1, %b1, %m1, %v1, true)
  %r = relu(%n)
  %d = conv2d(%r, %w2, none, [1], [1])
  add_(%d, %x)
  %s = relu(%d)
  %p = mean(%s, [2,3])
  %y = linear(%p, %fc)
  return %y
}
case "test_resnet18_backward_trace one block" {
  %x = randn([2,3,4,4], seed=1)
  %w1 = randn([3,3,3,3], seed=2, requires_grad=true)
  %g1 = randn([3], seed=3, requires_grad=true)
  %b1 = randn([3], seed=4, requires_grad=true)
  %m1 = zeros([3])
  %v1 = ones([3])
  %w2 = randn([3,3,3,3], seed=5, requires_grad=true)
  %fc = randn([2,3], seed=6, requires_grad=true)
  call @block(%x, %w1, %g1, %b1, %m1, %v1, %w2, %fc)
  backward seed=7
}
