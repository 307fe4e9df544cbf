# 11_dynamic_shapes.td -- functions with symbolic sizes: the eleventh group of
# tests/README.md.

func @plus_one(%x: f32[s0,3]) {
  %y = add(%x, 1.0)
  return %y, s0
}
case "test_dynamic_shape_output_not_in_bw_graph RG" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @plus_one(%x)
  backward seed=3
}
case "test_dynamic_shape_output_not_in_bw_graph other size RG" {
  %x = randn([7,3], seed=1, requires_grad=true)
  call @plus_one(%x)
  backward seed=3
}

func @expand_to_itself(%x: f32[s0,s1]) {
  %y = expand(%x, [s0,s1])
  return %y
}
case "test_output_op_depending_on_symint RG" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @expand_to_itself(%x)
  backward seed=3
}

func @row_masked(%a: f32[s0,s1]) {
  %b = select(%a, 0, 0)
  %m = ones([s1], bool)
  %d = masked_fill_(%b, %m, 0.0)
  return %d
}
case "test_default_partitioner_saves_symints_not_tensors_for_bw NL" {
  %a0 = randn([2,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @row_masked(%a)
  backward seed=3
}

func @row_sums(%x: f32[s0,s1]) {
  %y = sum(%x, [1])
  return %y
}
func @expand_and_join(%a: f32[s0], %b: f32[s1,s0], %c: f32[s2,s0]) {
  %e = expand(%a, [s1+s2,s0])
  %y = cat([%e, %b, %c], 0)
  return %y
}
case "test_min_cut_partitioner_save_shape sums RG" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @row_sums(%x)
  backward seed=3
}
case "test_min_cut_partitioner_save_shape expand and join RG" {
  %a = randn([3], seed=1, requires_grad=true)
  %b = randn([2,3], seed=2, requires_grad=true)
  %c = randn([4,3], seed=3, requires_grad=true)
  call @expand_and_join(%a, %b, %c)
  backward seed=3
}

func @shapes_out(%a: f32[s0], %b: f32[s1,s0], %c: f32[s2,s0], %d: f32[s0,s0]) {
  %e = expand(%a, [s1,s0])
  %j = cat([%e, %b, %c], 0)
  %m = mm(%j, %d)
  %n = mm(%m, %d)
  return %j, s1, s0, %c, %n
}
case "test_default_partitioner_output_tensor_shape_tensor RG" {
  %a = randn([3], seed=1, requires_grad=true)
  %b = randn([2,3], seed=2, requires_grad=true)
  %c = randn([4,3], seed=3, requires_grad=true)
  %d = randn([3,3], seed=4, requires_grad=true)
  call @shapes_out(%a, %b, %c, %d)
  backward seed=3
}

func @square(%x: f32[s0]) {
  %y = mul(%x, %x)
  return %y
}
case "test_compiled_backward_dynamic_shapes" {
  %x = randn([4], seed=1, requires_grad=true)
  call @square(%x)
  backward seed=3
  %y = randn([8], seed=2, requires_grad=true)
  call @square(%y)
  backward seed=3
  %z = randn([16], seed=3, requires_grad=true)
  call @square(%z)
  backward seed=3
}

func @join_and_product(%x: f32[s0,3], %y: f32[s0,3]) {
  %j = cat([%x, %x], 0)
  %p = mul(%x, %y)
  return %j, %p
}
case "test_dynamic_shapes_different_sizes RG" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %y = randn([2,3], seed=2, requires_grad=true)
  call @join_and_product(%x, %y)
  backward seed=3
}
case "test_dynamic_shapes_different_sizes larger RG" {
  %x = randn([5,3], seed=1, requires_grad=true)
  %y = randn([5,3], seed=2, requires_grad=true)
  call @join_and_product(%x, %y)
  backward seed=3
}

func @linear_dynamic(%x: f32[s0,3], %w: f32[2,3], %b: f32[2], %y: f32[s0,2]) {
  %h = linear(%x, %w, %b)
  %r = add(%h, %y)
  return %r
}
case "test_aot_module_simplified_dynamic RG" {
  %x = randn([4,3], seed=1)
  %w = randn([2,3], seed=2, requires_grad=true)
  %b = randn([2], seed=3, requires_grad=true)
  %y = randn([4,2], seed=4)
  call @linear_dynamic(%x, %w, %b, %y)
  backward seed=3
}

# As many elements as the values say; here one, and none.
func @unique_reshaped(%x: f32[1], %s: f32[3]) {
  %u, %j, %k = unique(%x)
  %r = reshape(%u, [1])
  %z = squeeze_dim(%r, 0)
  %y = mul(%z, %s)
  return %y
}
case "test_aot_autograd_stride_reconstruction_on_zero_dim_dynamic_shaped_tensor" {
  %x = ones([1])
  %s = randn([3], seed=1, requires_grad=true)
  call @unique_reshaped(%x, %s)
  backward seed=3
}
func @places(%m: bool[4], %x: f32[1]) {
  %i = nonzero(%m)
  %d = mul(%i, 2)
  %f = to(%d, f32)
  %q = div(%f, 3.0)
  %y = add(%q, %x)
  return %y, %q
}
case "test_unbacked_activation_specialized_in_inductor" {
  %none = tensor([0, 0, 0, 0], bool)
  %x = randn([1], seed=1, requires_grad=true)
  %y, %q = call @places(%none, %x)
  backward %y
}
