# 17_saved_values.td -- values saved for backward, and second backwards: group 17
# of tests/README.md.

func @relu(%x: f32[4]) {
  %y = relu(%x)
  return %y
}
case "test_donated_buffer1 RG" {
  %x = randn([4], seed=1, requires_grad=true)
  call @relu(%x)
  backward seed=3
}

func @product(%a: f32[3,3], %w: f32[3,3]) {
  %y = matmul(%a, %w)
  return %y
}
case "test_donated_buffer2 RG" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %w = randn([3,3], seed=2, requires_grad=true)
  %a = add(%x, %x)
  call @product(%a, %w)
  backward seed=3
}
case "test_donated_buffer3 RG" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %w = randn([3,3], seed=2, requires_grad=true)
  %a = exp(%x)
  call @product(%a, %w)
  backward seed=3
}

func @relu_plus(%x: f32[4], %p: f32[4]) {
  %r = relu(%x)
  %y = add(%r, %p)
  return %y
}
case "test_donated_buffer4 RG" {
  %x = randn([4], seed=1, requires_grad=true)
  %p = randn([4], seed=2, requires_grad=true)
  call @relu_plus(%x, %p)
  backward seed=3
}

func @view_times(%x: f32[3,2], %z: f32[2,2]) {
  %v = view(%x, [2,3])
  %m = mm(%v, %x)
  %r = relu(%z)
  %y = add(%m, %r)
  return %y
}
case "test_donated_buffer5 RG" {
  %x = randn([3,2], seed=1, requires_grad=true)
  %z = randn([2,2], seed=2, requires_grad=true)
  call @view_times(%x, %z)
  backward seed=3
}

func @sines(%x: f32[4], %w: f32[4]) {
  %a = sin(%x)
  %b = mul(%a, %w)
  %y = relu(%b)
  return %y
}
case "test_donated_buffer_with_retain_or_create_graph1" {
  %x = randn([4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  call @sines(%x, %w)
  backward seed=3
  call @sines(%x, %w)
  backward seed=4
}
case "test_donated_buffer_with_retain_or_create_graph2" {
  %x = randn([4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  call @sines(%x, %w)
  backward seed=3 retain_graph=true
  backward seed=4 retain_graph=true
  backward seed=5
}
case "test_donated_buffer_with_retain_or_create_graph3" {
  %x = randn([4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  call @sines(%x, %w)
  backward seed=3 create_graph=true
  backward seed=4 retain_graph=true
  backward seed=5 retain_graph=true
  backward seed=6
}
case "test_donated_buffer_with_retain_or_create_graph4" {
  %x = randn([4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  call @sines(%x, %w)
  backward seed=3
  call @sines(%x, %w)
  backward seed=4 retain_graph=true
  backward seed=5
}
case "a second backward without retain_graph" {
  %x = randn([4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  call @sines(%x, %w)
  backward seed=3
  backward seed=4
}
func @leaf_made_inside(%x: f32[3]) {
  %p = ones([3])
  requires_grad_(%p)
  %s = sin(%p)
  %y = mul(%s, %x)
  return %p, %y
}
case "test_donated_buffer6" {
  %x = randn([3], seed=1, requires_grad=true)
  %p, %y = call @leaf_made_inside(%x)
  backward %y seed=3
}
