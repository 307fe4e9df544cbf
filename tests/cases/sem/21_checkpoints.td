# 21_checkpoints.td -- regions that ask to be computed again, with the wishes as they
# are captured: the group 21 of tests/README.md. Who keeps what is in golden files
# and unit tests.

func @region(%x: f32[3,3], %y: f32[3,3]) {
  %s = sin(%x) : f32[3,3] prefer_recompute 1
  %m = mm(%s, %y) : f32[3,3] prefer_recompute 1
  %z = sigmoid(%m) : f32[3,3] prefer_recompute 1
  return %z
}
case "test_tags_function" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  call @region(%x, %y)
  backward seed=3
}

func @two_regions(%x: f32[3,3], %y: f32[3,3]) {
  %c = cos(%x) : f32[3,3] prefer_recompute 1
  %m = mm(%c, %y) : f32[3,3] prefer_recompute 1
  %n = mm(%m, %y) : f32[3,3] prefer_recompute 1
  %o = cos(%n) : f32[3,3] prefer_recompute 1
  %d = cos(%o) : f32[3,3] prefer_recompute 2
  %p = mm(%d, %y) : f32[3,3] prefer_recompute 2
  %q = mm(%p, %y) : f32[3,3] prefer_recompute 2
  %z = cos(%q) : f32[3,3] prefer_recompute 2
  return %z
}
case "test_tags_sequential_layers" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  call @two_regions(%x, %y)
  backward seed=3
}

func @between(%x: f32[3,3], %y: f32[3,3]) {
  %s = sin(%x) : f32[3,3] prefer_recompute 1
  %m = mm(%s, %y) : f32[3,3] prefer_recompute 1
  %a = sigmoid(%m) : f32[3,3] prefer_recompute 1
  %b = sin(%a)
  %t = sin(%b) : f32[3,3] prefer_recompute 2
  %n = mm(%t, %y) : f32[3,3] prefer_recompute 2
  %z = sigmoid(%n) : f32[3,3] prefer_recompute 2
  return %z
}
case "test_tags_multiple_checkpoints" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  call @between(%x, %y)
  backward seed=3
}

func @linear_sigmoid(%x: f32[2,3], %w: f32[3,3], %b: f32[3]) {
  %l = linear(%x, %w, %b) : f32[2,3] prefer_recompute 1
  %y = sigmoid(%l) : f32[2,3] prefer_recompute 1
  return %y
}
case "test_tags_module" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %w = randn([3,3], seed=2, requires_grad=true)
  %b = randn([3], seed=3, requires_grad=true)
  call @linear_sigmoid(%x, %w, %b)
  backward seed=4
}

func @linear_gelu(%x: f32[2,3], %w: f32[3,3]) {
  %l = linear(%x, %w) : f32[2,3] prefer_recompute 1
  %y = gelu(%l) : f32[2,3] prefer_recompute 1
  return %y
}
case "test_tags_decomps" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %w = randn([3,3], seed=2, requires_grad=true)
  call @linear_gelu(%x, %w)
  backward seed=4
}

func @recompute_products(%x: f32[3,3], %y: f32[3,3]) {
  %a = mm(%x, %y) : f32[3,3] must_recompute 1
  %b = sigmoid(%a) : f32[3,3] prefer_recompute 1
  %c = mm(%b, %y) : f32[3,3] must_recompute 1
  %z = sigmoid(%c) : f32[3,3] prefer_recompute 1
  return %z
}
case "test_compile_selective_checkpoint_must_recompute" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  call @recompute_products(%x, %y)
  backward seed=3
}

func @save_products(%x: f32[3,3], %y: f32[3,3]) {
  %a = mm(%x, %y) : f32[3,3] must_save 1
  %b = sigmoid(%a) : f32[3,3] prefer_recompute 1
  %c = mm(%b, %y) : f32[3,3] must_save 1
  %z = sigmoid(%c) : f32[3,3] prefer_recompute 1
  return %z
}
case "test_compile_selective_checkpoint_must_not_recompute_gemm" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  call @save_products(%x, %y)
  backward seed=3
}

func @joins(%x: f32[3,3], %y: f32[3,3]) {
  %a = mm(%x, %y) : f32[3,3] must_save 1
  %s = sigmoid(%a) : f32[3,3] must_save 1
  %c = cat([%s, %x], 0) : f32[6,3] prefer_recompute 1
  %m = mm(%c, %y) : f32[6,3] must_save 1
  %z = sin(%m) : f32[6,3] prefer_recompute 1
  return %z
}
case "test_compile_selective_checkpoint_outplace_op" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  call @joins(%x, %y)
  backward seed=3
}

func @writes_inside(%x: f32[3,3], %y: f32[3,3]) {
  %a = mm(%x, %y) : f32[3,3] must_save 1
  %s = sigmoid(%a) : f32[3,3] prefer_recompute 1
  mul_(%s, %y) prefer_recompute 1
  %z = sin(%s) : f32[3,3] prefer_recompute 1
  return %z
}
case "test_compile_selective_checkpoint_inplace_op" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  call @writes_inside(%x, %y)
  backward seed=3
}

func @writes_an_input(%x: f32[3,3], %y: f32[3,3], %seen: f32[3]) {
  %s = sin(%x) : f32[3,3] prefer_recompute 1
  add_(%seen, 1.0) prefer_recompute 1
  %m = mul(%s, %seen) : f32[3,3] prefer_recompute 1
  %z = mm(%m, %y)
  return %z
}
case "test_nonlocal_mutation applied once" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  %seen = zeros([3])
  call @writes_an_input(%x, %y, %seen)
  backward seed=3
}

func @all_saved(%x: f32[3,3], %y: f32[3,3]) {
  %d = detach(%x) : f32[3,3] prefer_recompute 1
  %m = mm(%x, %y) : f32[3,3] must_save 1
  %s = silu(%m) : f32[3,3] must_save 1
  %v, %i = topk(%s, 2) : (f32[3,2], i64[3,2]) must_save 1
  %w = slice(%d, 1, 0, 2) : f32[3,2] must_save 1
  %z = mul(%v, %w) : f32[3,2] must_save 1
  return %z
}
case "test_pre_mode_decomp_has_sac_ignored_ops" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  call @all_saved(%x, %y)
  backward seed=3
}

func @same_twice(%x: f32[3]) {
  %s = sin(%x) : f32[3] prefer_recompute 1
  %y = mul(%s, %s) : f32[3] prefer_recompute 1
  return %y, %y
}
case "test_return_same_element_twice" {
  %x = randn([3], seed=1, requires_grad=true)
  call @same_twice(%x)
  backward seed=3
}

func @loss_inside(%x: f32[3,3], %y: f32[3,3]) {
  %m = mm(%x, %y) : f32[3,3] prefer_recompute 1
  %s = sigmoid(%m) : f32[3,3] prefer_recompute 1
  %l = sum(%s)
  return %l
}
case "test_ac_rematerialize_simple_forward_backward" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %y = randn([3,3], seed=2, requires_grad=true)
  %l = call @loss_inside(%x, %y)
  backward %l
}

func @square(%x) {
  %y = mul(%x, %x)
  return %y
}
func @by_twice(%x, %i) {
  %z = mul(%i, 2)
  %y = mul(%x, %z)
  return %y
}
case "saved-tensor hooks around a checkpoint pack its input" {
  %x = tensor([1, 2, 3], f32, [3], requires_grad=true)
  call @square(%x) hooks=twice checkpoint=true
  backward
}
case "a packed input of a checkpoint may be written" {
  %x = tensor([1, 2, 3], f32, [3], requires_grad=true)
  call @square(%x) hooks=clone checkpoint=true
  no_grad {
    add_(%x, 1)
  }
  backward %out.0
}
case "a packed input without gradients may be written too" {
  %x = tensor([1, 2, 3], f32, [3], requires_grad=true)
  %i = tensor([1, 2, 3], f32, [3])
  call @by_twice(%x, %i) hooks=twice checkpoint=true
  add_(%i, 1)
  backward %out.0
}
case "an input of a checkpoint may not be written" {
  %x = tensor([1, 2, 3], f32, [3], requires_grad=true)
  call @square(%x) checkpoint=true
  no_grad {
    add_(%x, 1)
  }
  backward %out.0
}
case "an inference tensor cannot be an input of a checkpoint" {
  %x = tensor([1, 2, 3], f32, [3], requires_grad=true)
  inference {
    %i = tensor([1, 2, 3], f32, [3])
  }
  call @by_twice(%x, %i) checkpoint=true
}

func @attends(%q: f32[1,2,4,3], %k: f32[1,2,4,3], %v: f32[1,2,4,3]) {
  %s = sin(%q) : f32[1,2,4,3] prefer_recompute 1
  %a = scaled_dot_product_attention(%s, %k, %v) : f32[1,2,4,3] prefer_recompute 1
  %y = cos(%a)
  return %y
}
case "test_autocast_flash_attention" {
  %q = randn([1,2,4,3], seed=1, requires_grad=true)
  %k = randn([1,2,4,3], seed=2, requires_grad=true)
  %v = randn([1,2,4,3], seed=3, requires_grad=true)
  call @attends(%q, %k, %v)
  backward seed=4
}
