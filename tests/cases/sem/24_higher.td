# 24_higher.td -- gradients of gradients through a compiled function: the group 24 of
# tests/README.md. PyTorch's compiled form refuses them.

func @square(%x: f32[3]) {
  %y = mul(%x, %x)
  return %y
}
case "test_compiled_backward_double_backward" {
  %x = randn([3], seed=1, requires_grad=true)
  call @square(%x)
  backward seed=3 create_graph=true
  %g = grad %x
  %h = mul(%g, %g)
  backward %h
}

func @cubes(%x: f32[3], %w: f32[3]) {
  %a = mul(%x, %x)
  %b = mul(%a, %w)
  %c = sin(%b)
  return %a, %c
}
case "test_double_backward_with_compile both outside" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @cubes(%x, %w)
  backward seed=3 create_graph=true
  %g = grad %x
  %v = grad %w
  backward %g, %v seed=4
}
case "test_double_backward_with_compile three times" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @cubes(%x, %w)
  backward %out.1 create_graph=true
  %g = grad %x
  backward %g create_graph=true
  %h = grad %w
  backward %h seed=4
}

func @writes(%x: f32[3], %y: f32[3]) {
  mul_(%x, %y)
  %a = mul(%x, %x)
  %v = view(%a, [3,1])
  return %a, %v
}
case "double backward through a written input and an alias" {
  %x0 = randn([3], seed=1, requires_grad=true)
  %x = mul(%x0, 2.0)
  %y = randn([3], seed=2, requires_grad=true)
  call @writes(%x, %y)
  backward %out.1 seed=3 create_graph=true
  %g = grad %x0
  backward %g seed=4
}

func @normed(%x: f32[2,4], %w: f32[4], %b: f32[4]) {
  %y = layer_norm(%x, [4], %w, %b)
  return %y
}
case "test_layer_norm_double_backward_dynamic_shapes" {
  %x = randn([2,4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  %b = randn([4], seed=3, requires_grad=true)
  call @normed(%x, %w, %b)
  backward seed=4 create_graph=true
  %g = grad %x
  backward %g seed=5
}

func @batch_normed(%x: f32[4,3], %w: f32[3], %b: f32[3], %m: f32[3], %v: f32[3]) {
  %y = batch_norm(%x, %w, %b, %m, %v, true)
  return %y
}
case "double backward through batch norm" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  %b = randn([3], seed=3, requires_grad=true)
  %m = zeros([3])
  %v = ones([3])
  call @batch_normed(%x, %w, %b, %m, %v)
  backward seed=4 create_graph=true
  %g = grad %x
  backward %g seed=5
}

func @shown_stats(%x: f32[2,4], %w: f32[4], %b: f32[4]) {
  %y, %m, %r = native_layer_norm(%x, [4], %w, %b, 1e-05)
  %z = mul(%y, %r)
  %u = add(%z, %m)
  return %u, %m
}
case "double backward beside statistics that have no history" {
  %x = randn([2,4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  %b = randn([4], seed=3, requires_grad=true)
  call @shown_stats(%x, %w, %b)
  backward seed=4 create_graph=true
  %g = grad %x
  backward %g seed=5
}
