# 33_eager_state.td -- what single ops do to storages, versions and histories: the group
# 33 of tests/README.md.

func @sum_to_own_size(%x: f32[]) {
  %y = sum_to_size(%x, [])
  mul_(%y, 2.0)
  return %y
}
case "sum_to_size of no dims is fresh" {
  %x = full([], 3.0)
  call @sum_to_own_size(%x)
}

func @set_part(%a: f32[2], %b: f32[2]) {
  set_(%a, %b, 1, [1])
  return
}
case "set_ counts from the offset of its source" {
  %x = tensor([0, 1, 2, 3, 4, 5], f32)
  %b = slice(%x, 0, 2, 4)
  %a = tensor([9, 9], f32)
  call @set_part(%a, %b)
}
func @set_beyond(%a: f32[2], %b: f32[1]) {
  set_(%a, %b, 2, [2])
  return
}
case "set_ beyond the storage" {
  %b = tensor([7], f32)
  %a = tensor([9, 9], f32)
  call @set_beyond(%a, %b)
}
func @set_grown(%a: f32[2], %b: f32[1]) {
  set_(%a, %b, 2, [1,3])
  fill_(%a, 3)
  return
}
case "set_ to other sizes beyond the storage" {
  %b = tensor([7], f32)
  %a = tensor([9, 9], f32)
  call @set_grown(%a, %b)
}
func @set_turned(%a: f32[2], %b: f32[2,2]) {
  set_(%a, %b, 0, [2])
  return
}
case "set_ of a part of what is not contiguous" {
  %x = tensor([[1, 2], [3, 4]], f32)
  %b = t(%x)
  %a = tensor([9, 9], f32)
  call @set_turned(%a, %b)
}

func @or_in_place(%x: f32[2], %y: f32[2]) {
  logical_or_(%x, %y)
  return %x
}
case "logical_or_ takes no history from what it reads" {
  %x = tensor([0, 1], f32)
  %y = tensor([0, 1], f32, requires_grad=true)
  call @or_in_place(%x, %y)
}
func @eq_in_place(%x: f32[2], %y: f32[2]) {
  eq_(%x, %y)
  return %x
}
case "eq_ does" {
  %x = tensor([0, 1], f32)
  %y = tensor([0, 1], f32, requires_grad=true)
  call @eq_in_place(%x, %y)
  backward
}

func @given(%x: f32[1,2]) {
  return %x
}
case "a view made in inference mode does not require grad" {
  inference {
    %l = randn([2], seed=1, requires_grad=true)
    %v = unsqueeze(%l, 0)
    call @given(%v)
  }
}

func @add_itself(%x: f32[3], %i: i64[3]) {
  index_add_(%x, 0, %i, %x)
  return %x
}
case "index_add_ of itself" {
  %x = tensor([1, 2, 3], f32)
  %i = tensor([0, 0, 1], i64)
  call @add_itself(%x, %i)
}
func @scatter_itself(%x: f32[3], %i: i64[3]) {
  scatter_add_(%x, 0, %i, %x)
  return %x
}
case "scatter_add_ of itself" {
  %x = tensor([1, 2, 3], f32)
  %i = tensor([0, 0, 1], i64)
  call @scatter_itself(%x, %i)
}
func @copy_itself(%x: f32[3], %i: i64[3]) {
  index_copy_(%x, 0, %i, %x)
  return %x
}
case "index_copy_ of itself" {
  %x = tensor([1, 2, 3], f32)
  %i = tensor([2, 0, 1], i64)
  call @copy_itself(%x, %i)
}

func @resize_same(%w: f32[3], %x: f32[3]) {
  %y = mul(%w, %x)
  resize_(%x, [3])
  return %y
}
case "resize_ to the same size is no write" {
  %w = tensor([1, 2, 3], f32, requires_grad=true)
  %x = tensor([4, 5, 6], f32)
  call @resize_same(%w, %x)
  backward
}

func @nansum_whole(%x: f32[3]) {
  %s = nansum(%x, none, false, i64)
  return %s
}
case "nansum of whole numbers" {
  %x = tensor([1, nan, 3], f32)
  call @nansum_whole(%x)
}

func @write_bits(%x: f32[4], %w: f16[2]) {
  %y = mul(%x, 1.0)
  %b = view_dtype(%y, f16)
  %c = slice(%b, 0, 0, 2)
  %d = slice(%b, 0, 1, 3)
  mul_(%c, %w)
  return %b, %c, %d
}
case "views of a view of another dtype follow its history" {
  %x = tensor([1, 2, 3, 4], f32, requires_grad=true)
  %w = tensor([2, 4], f16, requires_grad=true)
  call @write_bits(%x, %w)
  backward
}

func @write_bits_given(%b: f16[8], %c: f16[2], %d: f16[2], %w: f16[2]) {
  mul_(%c, %w)
  %e = mul(%d, 2.0)
  return %b, %e
}
case "the same of arguments" {
  %x = tensor([1, 2, 3, 4], f32)
  %w = tensor([2, 4], f16, requires_grad=true)
  %b = view_dtype(%x, f16)
  %c = slice(%b, 0, 0, 2)
  %d = slice(%b, 0, 1, 3)
  call @write_bits_given(%b, %c, %d, %w)
  backward
}

func @detach_bits(%b: f16[8]) {
  %c = slice(%b, 0, 0, 2)
  detach_(%c)
  return %c
}
case "a view of a view of another dtype cannot be detached in place" {
  %x = tensor([1, 2, 3, 4], f32)
  %b = view_dtype(%x, f16)
  call @detach_bits(%b)
}

func @extremes(%x: f32[4]) {
  %a = min(%x)
  %b = max(%x)
  %c = median(%x)
  %d = log(%a)
  return %b, %c, %d
}
case "an infinite gradient of min reaches the least elements only" {
  %x = tensor([0, 2, 3, 0], f32, requires_grad=true)
  call @extremes(%x)
  backward
}
case "a NaN shares the gradient with the other NaNs" {
  %x = tensor([1, nan, 3, nan], f32, requires_grad=true)
  call @extremes(%x)
  backward
}

func @max_of_silent_view(%x: f32[3]) {
  %y = mul(%x, 1.0)
  no_grad {
    %v = view(%y, [3])
  }
  %m = max(%v)
  mul_(%m, 2.0)
  return %m
}
case "max of a view made under no_grad saves its result" {
  %x = tensor([1, 2, 3], f32, requires_grad=true)
  call @max_of_silent_view(%x)
  backward
}

func @scatter_silent_view(%x: f32[3], %i: i64[2]) {
  %y = mul(%x, 1.0)
  no_grad {
    %v = view(%y, [3])
  }
  %s = scatter(%v, 0, %i, %v)
  return %s
}
case "scatter of a view made under no_grad saves its index, which two derivatives read" {
  %x = tensor([1, 2, 3], f32, requires_grad=true)
  %i = tensor([2, 0], i64)
  call @scatter_silent_view(%x, %i)
  backward
  backward
}

func @rms(%x: f32[2,2], %w: f64[2]) {
  %y = rms_norm(%x, [2], %w, 0.0)
  return %y
}
case "rms_norm has the dtype of its input, whatever that of the weight" {
  %x = tensor([1, 1, 2, 2], f32, [2,2], requires_grad=true)
  %w = tensor([2, 3], f64, requires_grad=true)
  call @rms(%x, %w)
  backward
}

func @attend(%q, %k, %v) {
  %y = scaled_dot_product_attention(%q, %k, %v)
  return %y
}
case "attention to scores of -inf alone is 0" {
  %q = tensor([-inf, 0, 1, 1], f32, [1,2,2])
  %k = full([1,2,2], 2.0)
  %v = full([1,2,2], 1.0, requires_grad=true)
  call @attend(%q, %k, %v)
  backward
}
case "the same with heads" {
  %q = tensor([-inf, 0, 1, 1], f32, [1,1,2,2])
  %k = full([1,1,2,2], 2.0)
  %v = full([1,1,2,2], 1.0, requires_grad=true)
  call @attend(%q, %k, %v)
  backward
}
case "the gradient of attention to no keys depends on no argument" {
  %q = full([3,2], 1.0, requires_grad=true)
  %k = full([0,2], 1.0, requires_grad=true)
  call @attend(%q, %k, %k) grads=true
}
case "attention to no keys is NaN where a query is" {
  %q = tensor([nan, 0, 1, 1], f32, [2,2], requires_grad=true)
  %k = full([0,2], 1.0, requires_grad=true)
  call @attend(%q, %k, %k)
  backward
}

func @norms(%x) {
  %a = norm(%x)
  %b = norm(%x, 0.5, [0])
  %c = add(%a, %b)
  return %c
}
case "the gradient of a norm has the layout of its argument" {
  %x = tensor([1, 2, 3, 4, 5, 6], f32, [2,3], requires_grad=true)
  %y = t(%x)
  call @norms(%y) grads=true
}

func @greater(%x, %y) {
  %a = maximum(%x, %y)
  return %a
}
case "gradients of maximum have the layout of its arguments" {
  %x = tensor([1, 2, 3, 4, 5, 6], f32, [2,3], requires_grad=true)
  %w = tensor([6, 5, 3, 3, 2, 1], f32, [2,3], requires_grad=true)
  %y = t(%x)
  %z = t(%w)
  call @greater(%y, %z) grads=true
}

func @clamped(%x, %y) {
  %a = clamp_tensor(%x, %y)
  return %a
}
case "gradients of a clamp by a tensor have the layout of its arguments" {
  %x = tensor([1, 2, 3, 4, 5, 6], f32, [2,3], requires_grad=true)
  %w = tensor([6, 5, 3, 3, 2, 1], f32, [2,3], requires_grad=true)
  %y = t(%x)
  %z = t(%w)
  call @clamped(%y, %z) grads=true
}

func @greatest(%x) {
  %a = max(%x)
  return %a
}
case "the gradient of max of all elements is row-major" {
  %x = tensor([1, 2, 3, 4, 5, 6], f32, [2,3], requires_grad=true)
  %y = t(%x)
  call @greatest(%y) grads=true
}

func @products(%x) {
  %a = cumprod(%x, 0)
  return %a
}
case "the gradient of cumprod of one element depends on no argument" {
  %x = tensor([2], f64, [1], requires_grad=true)
  call @products(%x) grads=true
}

func @log_sums(%x) {
  %a = logcumsumexp(%x, 0)
  return %a
}
case "the gradient of logcumsumexp without dims depends on no argument" {
  %x = tensor([2], f64, [], requires_grad=true)
  call @log_sums(%x) grads=true
}
