# 01_calling.td -- plain functions and how they are called: the first group of
# tests/README.md, whose table says what each case is for. RG: the inputs require
# grad and are leaves; NL: they require grad and are not; NRG: they do not.

func @scale(%a: int, %b, %c: f32[3,3]) {
  %y = mul(%c, %a)
  return %y
}
case "test_non_tensor_and_none_inputs RG" {
  %c = randn([3,3], seed=1, requires_grad=true)
  call @scale(2, none, %c)
  backward seed=3
}
case "test_non_tensor_and_none_inputs NRG" {
  %c = randn([3,3], seed=1)
  call @scale(2, none, %c)
}

func @sum_of_two(%a: f32[3,3], %b: f32[3,3]) {
  %y = add(%a, %b)
  return %y
}
case "test_single_output RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  %b = randn([3,3], seed=2)
  call @sum_of_two(%a, %b)
  backward seed=3
}
case "test_single_output NRG" {
  %a = randn([3,3], seed=1)
  %b = randn([3,3], seed=2)
  call @sum_of_two(%a, %b)
}

# Trees are flat here; tests/unit/tree.c takes them apart and puts them together.
func @same_twice(%x: f32[3,3]) {
  return %x, %x
}
func @itself_and_sum(%x: f32[3,3], %y: f32[3,3]) {
  %s = add(%y, %x)
  return %x, %s
}
func @each(%a: f32[3,3], %b: f32[3,3]) {
  %x = mul(%a, 2.0)
  %y = mul(%b, 2.0)
  return %x, %y
}
case "test_output_dict one input twice" {
  %x0 = randn([3,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @same_twice(%x)
  backward seed=3
}
case "test_output_dict an input and a sum" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  call @itself_and_sum(%x, %y)
  backward seed=3
}
case "test_output_dict entry by entry" {
  %a = randn([3,3], seed=1, requires_grad=true)
  %b = randn([3,3], seed=2, requires_grad=true)
  call @each(%a, %b)
  backward seed=3
}

func @squeeze_mutation(%a: f32[3,1]) {
  %c = clone(%a)
  %b = squeeze_dim(%c, -1)
  add_(%b, 1.0)
  %y = add(%a, %b)
  return %y
}
case "test_squeeze_mutation RG" {
  %a = randn([3,1], seed=1, requires_grad=true)
  call @squeeze_mutation(%a)
  backward seed=3
}
case "test_squeeze_mutation NRG" {
  %a = randn([3,1], seed=1)
  call @squeeze_mutation(%a)
}

func @squeeze_mutation_dynamic(%a: f32[s0,1]) {
  %c = clone(%a)
  %b = squeeze_dim(%c, -1)
  add_(%b, 1.0)
  %y = add(%a, %b)
  return %y
}
case "test_squeeze_mutation dynamic RG" {
  %a = randn([3,1], seed=1, requires_grad=true)
  call @squeeze_mutation_dynamic(%a)
  backward seed=3
}

# A cast to its own dtype is the tensor itself.
func @dense(%x: f32[4,3]) {
  %y = to(%x, f32)
  return %y
}
func @dense_other(%x: f32[4,3]) {
  %y = to(%x, f64)
  return %y
}
case "test_to_dense_strided_tensor same dtype" {
  %x0 = randn([4,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @dense(%x)
  backward seed=3
}
case "test_to_dense_strided_tensor same dtype NRG" {
  %x = randn([4,3], seed=1)
  call @dense(%x)
}
case "test_to_dense_strided_tensor other dtype" {
  %x0 = randn([4,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @dense_other(%x)
  backward seed=3
}

func @three(%a: f32[4], %b: f32[4], %c: f32[4]) {
  %p = mul(%a, %b)
  %y = mul(%p, %c)
  return %y
}
case "test_list_codegen" {
  %a = randn([4], seed=1, requires_grad=true)
  %b = randn([4], seed=2, requires_grad=true)
  %c = randn([4], seed=3, requires_grad=true)
  call @three(%a, %b, %c)
  backward seed=3
}

func @linear(%w: f32[2,3], %b: f32[2], %x: f32[4,3]) {
  %y = linear(%x, %w, %b)
  return %y
}
func @linear_inference(%w: f32[2,3], %b: f32[2], %x: f32[4,3]) {
  inference {
    %y = linear(%x, %w, %b)
  }
  return %y
}
case "test_composite_impl_compile RG" {
  %w = randn([2,3], seed=1, requires_grad=true)
  %b = randn([2], seed=2, requires_grad=true)
  %x = randn([4,3], seed=3, requires_grad=true)
  call @linear(%w, %b, %x)
  backward seed=3
}
case "test_composite_impl_compile inference" {
  %w = randn([2,3], seed=1, requires_grad=true)
  %b = randn([2], seed=2, requires_grad=true)
  %x = randn([4,3], seed=3, requires_grad=true)
  call @linear_inference(%w, %b, %x)
}

func @plus_scalar(%a: f32[4], %b: f32[]) {
  %y = add(%a, %b)
  return %y
}
func @plus_wide_scalar(%a: f32[4], %b: f64[]) {
  %y = add(%a, %b)
  return %y
}
case "test_scalar_device" {
  %a = randn([4], seed=1, requires_grad=true)
  %b = randn([], seed=2, requires_grad=true)
  call @plus_scalar(%a, %b)
  backward seed=3
}
case "test_scalar_device of a wider dtype" {
  %a = randn([4], seed=1, requires_grad=true)
  %b = tensor(0.1, f64)
  call @plus_wide_scalar(%a, %b)
  backward seed=3
}

func @sine(%x: f32[4]) {
  %y = sin(%x)
  return %y
}
case "test_make_fx" {
  %x = randn([4], seed=1)
  call @sine(%x)
  %z = randn([4], seed=2)
  call @sine(%z)
}

func @relu_written(%a: f32[4,3]) {
  %b = mul(%a, 2.0)
  relu_(%b)
  return %b
}
case "test_make_fx_functionalize" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @relu_written(%a)
  backward seed=3
}

func @sine0(%x: f32[]) {
  %y = sin(%x)
  return %y
}
func @product_mv(%m: f32[4,3], %v: f32[3]) {
  %y = mv(%m, %v)
  return %y
}
func @passthrough(%x: f32[4], %y: f32[4]) {
  %s = add(%x, %y)
  return %s, %y
}
func @replaced(%a: f32[4], %b: f32[4]) {
  %n = add(%a, %b)
  return %n, %b
}
case "test_nnc_scalar" {
  %x = randn([], seed=1)
  call @sine0(%x)
}
case "test_external_calls" {
  %m = randn([4,3], seed=1, requires_grad=true)
  %v = randn([3], seed=2, requires_grad=true)
  call @product_mv(%m, %v)
  backward seed=3
}
case "test_nnc_passthrough" {
  %x = randn([4], seed=1)
  %y = randn([4], seed=2)
  call @passthrough(%x, %y)
}
case "test_nnc_passthrough of an entry replaced" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([4], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  call @replaced(%a, %b)
  backward seed=3
}

func @gelu_linear(%x: f32[4,3], %w: f32[2,3], %b: f32[2]) {
  %h = linear(%x, %w, %b)
  gelu_(%h)
  return %h
}
case "test_meta_tensor_inplace_op" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([2,3], seed=2, requires_grad=true)
  %b = randn([2], seed=3, requires_grad=true)
  call @gelu_linear(%x, %w, %b)
  backward seed=3
}

func @factory(%n: f32[3]) {
  %r = randint(0, 10, [3])
  %l = alias(%r)
  return %l
}
case "test_lift_after_factory" {
  %n = randn([3], seed=1)
  call @factory(%n)
}

func @upsample(%x: f32[1,2,3,3]) {
  %y = interpolate(%x, none, 2.0)
  return %y
}
case "test_inference_python_dispatcher" {
  %x = randn([1,2,3,3], seed=1)
  call @upsample(%x)
}

func @layer_norm(%x: f32[4,6], %w: f32[6], %b: f32[6]) {
  %y = layer_norm(%x, [6], %w, %b)
  return %y
}
func @rms_norm(%x: f32[4,6], %w: f32[6]) {
  %y = rms_norm(%x, [6], %w, 1e-5)
  return %y
}
case "test_layer_norm" {
  %x = randn([4,6], seed=1, requires_grad=true)
  %w = randn([6], seed=2, requires_grad=true)
  %b = randn([6], seed=3, requires_grad=true)
  call @layer_norm(%x, %w, %b)
  backward seed=3
}
case "test_rms_norm" {
  %x = randn([4,6], seed=1, requires_grad=true)
  %w = randn([6], seed=2, requires_grad=true)
  call @rms_norm(%x, %w)
  backward seed=3
}

# Two steps of one cell in each direction, from an input with odd strides.
func @lstm(%x: f32[2,4,3]{3,6,1}, %w: f32[8,3], %u: f32[8,2]) {
  %p... = unbind(%x, 0)
  %h0 = zeros([4,2])
  %g0 = linear(%p.0, %w)
  %r0 = linear(%h0, %u)
  %s0 = add(%g0, %r0)
  %i, %f, %g, %o = chunk(%s0, 4, 1)
  %i1 = sigmoid(%i)
  %g1 = tanh(%g)
  %c1 = mul(%i1, %g1)
  %o1 = sigmoid(%o)
  %t1 = tanh(%c1)
  %h1 = mul(%o1, %t1)
  %g2 = linear(%p.1, %w)
  %r2 = linear(%h1, %u)
  %s2 = add(%g2, %r2)
  %j, %k, %l, %m = chunk(%s2, 4, 1)
  %j1 = sigmoid(%j)
  %k1 = sigmoid(%k)
  %l1 = tanh(%l)
  %a = mul(%k1, %c1)
  %c2 = addcmul(%a, %j1, %l1)
  %m1 = sigmoid(%m)
  %t2 = tanh(%c2)
  %h2 = mul(%m1, %t2)
  %y = stack([%h1, %h2], 0)
  return %y, %h2, %c2
}
case "test_LSTM" {
  %b = randn([4,2,3], seed=1, requires_grad=true)
  %x = transpose(%b, 0, 1)
  %w = randn([8,3], seed=2, requires_grad=true)
  %u = randn([8,2], seed=3, requires_grad=true)
  call @lstm(%x, %w, %u)
  backward seed=3
}

func @parameter_made(%x: f32[4]) {
  %y = sin(%x)
  %z = ones([1])
  requires_grad_(%z)
  %r = add(%y, %z)
  return %r
}
case "test_nn_parameter_construction RG" {
  %x = randn([4], seed=1, requires_grad=true)
  call @parameter_made(%x)
  backward seed=3
}
case "test_nn_parameter_construction NRG" {
  %x = randn([4], seed=1)
  call @parameter_made(%x)
}

func @conv(%x: f32[1,2,5,5], %w: f32[3,2,3,3], %b: f32[3]) {
  %y = conv2d(%x, %w, %b)
  return %y
}
case "test_call_fn_with_non_const_inputs_aot_safe" {
  %x = randn([1,2,5,5], seed=1, requires_grad=true)
  %w = randn([3,2,3,3], seed=2, requires_grad=true)
  %b = randn([3], seed=3, requires_grad=true)
  call @conv(%x, %w, %b)
  backward seed=3
}

# Dense gradients: there are no sparse layouts.
func @bag_viewed(%w: f32[5,3], %i: i64[2,4]) {
  %b = embedding_bag(%w, %i)
  %y = view(%b, [-1])
  return %y
}
case "test_embedding_bag_view_dynamic" {
  %w = randn([5,3], seed=1, requires_grad=true)
  %i = tensor([[0, 1, 4, 1], [3, 3, 0, 2]], i64)
  call @bag_viewed(%w, %i)
  backward seed=3
}

# rrelu in training, by hand: each negative element times a number drawn for it.
func @rrelu(%x: f32[4,4]) {
  %r = rand([4,4])
  %s = mul(%r, 0.25)
  %a = add(%s, 0.125)
  %n = mul(%x, %a)
  %m = gt(%x, 0.0)
  %y = where(%m, %x, %n)
  return %y
}
case "test_rrelu" {
  %x = randn([4,4], seed=1, requires_grad=true)
  call @rrelu(%x)
  backward seed=3
}
func @rrelu_(%x: f32[4,4]) {
  %h = mul(%x, 2.0)
  %noise = empty_like(%h)
  uniform_(%noise, 0.125, 0.375)
  %m = gt(%h, 0.0)
  masked_fill_(%noise, %m, 1.0)
  mul_(%h, %noise)
  return %h
}
case "test_rrelu in place" {
  %x = randn([4,4], seed=1, requires_grad=true)
  call @rrelu_(%x)
  backward seed=3
}

# The form that writes its noise argument.
func @with_noise(%x: bf16[4,4], %noise: bf16[4,4]) {
  uniform_(%noise, 0.125, 0.375)
  %m = gt(%x, 0.0)
  masked_fill_(%noise, %m, 0.875)
  %y = mul(%x, %noise)
  return %y
}
case "test_rrelu_with_noise_mutation" {
  %a = randn([4,4], seed=1)
  %x = to(%a, bf16)
  requires_grad_(%x)
  %n = ones([4,4])
  %noise = to(%n, bf16)
  call @with_noise(%x, %noise)
  backward seed=3
}
func @with_noise_(%x: bf16[4,4], %noise: bf16[4,4]) {
  uniform_(%noise, 0.125, 0.375)
  mul_(%x, %noise)
  return %x
}
case "test_rrelu_with_noise_mutation in place" {
  %a = randn([4,4], seed=1, requires_grad=true)
  %x = to(%a, bf16)
  %n = ones([4,4])
  %noise = to(%n, bf16)
  call @with_noise_(%x, %noise)
  backward seed=3
}
