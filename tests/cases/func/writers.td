# writers.td -- every kind of writer;
# every way of execution does what eager does.

func @copy_plain(%x: f32[4,3], %y: f32[4,3]) {
  copy_(%x, %y)
  return %x, %y
}

case "copy_plain" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @copy_plain(%x, %y)
}

func @copy_broadcast(%x: f32[4,3], %y: f32[4,3]) {
  %r = select(%y, 0, 1)
  copy_(%x, %r)
  return %x
}

case "copy_broadcast" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @copy_broadcast(%x, %y)
}

func @copy_cast(%x: f32[4,3], %y: f32[4,3]) {
  %i = to(%y, i64)
  copy_(%x, %i)
  return %x
}

case "copy_cast" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @copy_cast(%x, %y)
}

func @copy_into_int(%x: f32[4,3], %y: f32[4,3]) {
  %i = to(%x, i32)
  %v = select(%i, 1, 0)
  %r = select(%y, 1, 1)
  copy_(%v, %r)
  return %i
}

case "copy_into_int" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @copy_into_int(%x, %y)
}

func @copy_between_views(%x: f32[4,3]) {
  %a = slice(%x, 0, 0, 2)
  %b = slice(%x, 0, 2, 4)
  copy_(%a, %b)
  mul_(%b, 2.0)
  return %x, %a
}

case "copy_between_views" {
  %x = randn([4,3], seed=1)
  call @copy_between_views(%x)
}

func @copy_transposed(%x: f32[4,3], %y: f32[4,3]) {
  %a = t(%x)
  %b = reshape(%y, [3,4])
  copy_(%a, %b)
  return %x, %a
}

case "copy_transposed" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @copy_transposed(%x, %y)
}

func @fill_zero(%x: f32[4,3]) {
  %a = select(%x, 0, 0)
  fill_(%a, 2.5)
  %b = select(%x, 0, 1)
  zero_(%b)
  return %x, %a
}

case "fill_zero" {
  %x = randn([4,3], seed=1)
  call @fill_zero(%x)
}

func @fill_from_tensor(%x: f32[4,3]) {
  %s = select(%x, 0, 0)
  %n = select(%s, 0, 1)
  %c = clone(%n)
  fill_(%x, %c)
  return %x, %s
}

case "fill_from_tensor" {
  %x = randn([4,3], seed=1)
  call @fill_from_tensor(%x)
}

func @add_alpha(%x: f32[4,3], %y: f32[4,3]) {
  add_(%x, %y, 2)
  sub_(%y, %x)
  return %x, %y
}

case "add_alpha" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @add_alpha(%x, %y)
}

func @self_argument(%x: f32[4,3]) {
  mul_(%x, %x)
  %a = t(%x)
  add_(%x, %x)
  return %x, %a
}

case "self_argument" {
  %x = randn([4,3], seed=1)
  call @self_argument(%x)
}

func @promoted_write(%x: f32[4,3], %y: f32[4,3]) {
  %d = to(%y, f64)
  add_(%x, %d)
  return %x
}

case "promoted_write" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @promoted_write(%x, %y)
}

func @half_write(%x: f32[4,3], %y: f32[4,3]) {
  %h = to(%x, f16)
  mul_(%h, %y)
  return %h
}

case "half_write" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @half_write(%x, %y)
}

func @int_write(%x: f32[4,3]) {
  %i = to(%x, i64)
  add_(%i, 3)
  floor_divide_(%i, 2)
  return %i
}

case "int_write" {
  %x = randn([4,3], seed=1)
  call @int_write(%x)
}

func @masked_fill(%x: f32[4,3]) {
  %m = gt(%x, 0.0)
  masked_fill_(%x, %m, 9.0)
  return %x
}

case "masked_fill" {
  %x = randn([4,3], seed=1)
  call @masked_fill(%x)
}

func @masked_fill_view(%x: f32[4,3]) {
  %a = t(%x)
  %m = gt(%a, 0.0)
  masked_fill_(%a, %m, 9.0)
  return %x, %a
}

case "masked_fill_view" {
  %x = randn([4,3], seed=1)
  call @masked_fill_view(%x)
}

func @index_put(%x: f32[4,3], %i: i64[2]) {
  %s = select(%x, 0, 1)
  %c = clone(%s)
  index_put_(%x, [%i], %c)
  return %x, %s
}

case "index_put" {
  %x = randn([4,3], seed=1)
  %i = tensor([2, 0], i64)
  call @index_put(%x, %i)
}

func @index_put_accumulate(%x: f32[4,3], %i: i64[2]) {
  %s = slice(%x, 0, 1, 3)
  %c = clone(%s)
  index_put_(%x, [%i], %c, true)
  return %x
}

case "index_put_accumulate" {
  %x = randn([4,3], seed=1)
  %i = tensor([2, 0], i64)
  call @index_put_accumulate(%x, %i)
}

func @index_put_view(%x: f32[4,3], %i: i64[2]) {
  %a = t(%x)
  %c = zeros([2,4])
  index_put_(%a, [%i], %c)
  return %x, %a
}

case "index_put_view" {
  %x = randn([4,3], seed=1)
  %i = tensor([2, 0], i64)
  call @index_put_view(%x, %i)
}

func @index_add(%x: f32[4,3], %i: i64[2]) {
  %c = ones([2,3])
  index_add_(%x, 0, %i, %c)
  return %x
}

case "index_add" {
  %x = randn([4,3], seed=1)
  %i = tensor([2, 0], i64)
  call @index_add(%x, %i)
}

func @index_copy_view(%x: f32[4,3], %i: i64[2]) {
  %a = slice(%x, 1, 1, 3)
  %c = ones([2,2])
  index_copy_(%a, 0, %i, %c)
  return %x, %a
}

case "index_copy_view" {
  %x = randn([4,3], seed=1)
  %i = tensor([2, 0], i64)
  call @index_copy_view(%x, %i)
}

func @index_fill(%x: f32[4,3], %i: i64[2]) {
  index_fill_(%x, 0, %i, 4.0)
  return %x
}

case "index_fill" {
  %x = randn([4,3], seed=1)
  %i = tensor([2, 0], i64)
  call @index_fill(%x, %i)
}

func @scatter(%x: f32[4,3], %i: i64[2]) {
  %j = unsqueeze(%i, 1)
  %c = ones([2,1])
  scatter_(%x, 0, %j, %c)
  return %x
}

case "scatter" {
  %x = randn([4,3], seed=1)
  %i = tensor([2, 0], i64)
  call @scatter(%x, %i)
}

func @clamp_relu(%x: f32[4,3]) {
  %a = select(%x, 1, 0)
  clamp_(%a, -0.1, 0.1)
  relu_(%x)
  return %x, %a
}

case "clamp_relu" {
  %x = randn([4,3], seed=1)
  call @clamp_relu(%x)
}

func @tril(%x: f32[4,3]) {
  %a = slice(%x, 0, 0, 3)
  tril_(%a)
  return %x
}

case "tril" {
  %x = randn([4,3], seed=1)
  call @tril(%x)
}

func @addmm(%x: f32[4,3], %y: f32[4,3]) {
  %a = slice(%x, 0, 0, 3)
  %b = slice(%y, 0, 0, 3)
  addmm_(%a, %b, %b)
  return %x, %a
}

case "addmm" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @addmm(%x, %y)
}

func @cumsum(%x: f32[4,3]) {
  cumsum_(%x, 0)
  %a = t(%x)
  cumsum_(%a, 0)
  return %x
}

case "cumsum" {
  %x = randn([4,3], seed=1)
  call @cumsum(%x)
}

func @uniform(%x: f32[4,3]) {
  uniform_(%x)
  %a = select(%x, 0, 1)
  normal_(%a)
  %r = rand([3])
  add_(%a, %r)
  return %x, %a
}

case "uniform" {
  %x = randn([4,3], seed=1)
  call @uniform(%x)
}

func @random_writers(%x: f32[4,3]) {
  bernoulli_(%x, 0.5)
  %a = t(%x)
  exponential_(%a)
  %i = to(%x, i64)
  random_(%i, 0, 9)
  return %x, %i
}

case "random_writers" {
  %x = randn([4,3], seed=1)
  call @random_writers(%x)
}

func @dropout(%x: f32[4,3]) {
  %d = dropout(%x, 0.5, true)
  mul_(%d, 2.0)
  %a = t(%x)
  dropout_(%a, 0.3)
  return %x, %d
}

case "dropout" {
  %x = randn([4,3], seed=1)
  call @dropout(%x)
}

func @batch_norm(%x: f32[4,3], %m: f32[3], %v: f32[3], %n: i64[]) {
  add_(%n, 1)
  %y = batch_norm(%x, none, none, %m, %v, true, 0.1, 1e-5)
  return %y
}

case "batch_norm" {
  %x = randn([4,3], seed=1)
  %m = zeros([3])
  %v = ones([3])
  %n = tensor(0, i64)
  call @batch_norm(%x, %m, %v, %n)
}

func @batch_norm_twice(%x: f32[4,3], %m: f32[3], %v: f32[3], %n: i64[]) {
  %y = batch_norm(%x, none, none, %m, %v, true, 0.1, 1e-5)
  %z = batch_norm(%y, none, none, %m, %v, true, 0.5, 1e-5)
  %e = batch_norm(%x, none, none, %m, %v, false)
  return %z, %e, %m
}

case "batch_norm_twice" {
  %x = randn([4,3], seed=1)
  %m = zeros([3])
  %v = ones([3])
  %n = tensor(0, i64)
  call @batch_norm_twice(%x, %m, %v, %n)
}

func @batch_norm_eval(%x: f32[4,3], %m: f32[3], %v: f32[3], %n: i64[]) {
  %y = batch_norm(%x, none, none, %m, %v, false)
  return %y
}

case "batch_norm_eval" {
  %x = randn([4,3], seed=1)
  %m = zeros([3])
  %v = ones([3])
  %n = tensor(0, i64)
  call @batch_norm_eval(%x, %m, %v, %n)
}

func @batch_norm_no_stats(%x: f32[4,3], %m: f32[3], %v: f32[3], %n: i64[]) {
  %y = batch_norm(%x, none, none, none, none, true)
  return %y
}

case "batch_norm_no_stats" {
  %x = randn([4,3], seed=1)
  %m = zeros([3])
  %v = ones([3])
  %n = tensor(0, i64)
  call @batch_norm_no_stats(%x, %m, %v, %n)
}

func @batch_norm_stats_in_a_view(%x: f32[4,3], %m: f32[3], %v: f32[3], %n: i64[]) {
  %b = zeros([2,3])
  %p = select(%b, 0, 0)
  %q = select(%b, 0, 1)
  fill_(%q, 1.0)
  %y = batch_norm(%x, none, none, %p, %q, true)
  return %y, %b
}

case "batch_norm_stats_in_a_view" {
  %x = randn([4,3], seed=1)
  %m = zeros([3])
  %v = ones([3])
  %n = tensor(0, i64)
  call @batch_norm_stats_in_a_view(%x, %m, %v, %n)
}

func @no_grad_writes(%x: f32[4,3]) {
  no_grad {
    mul_(%x, 2.0)
  }
  %a = select(%x, 0, 1)
  no_grad {
    add_(%a, 1.0)
  }
  return %x, %a
}

case "no_grad_writes" {
  %x = randn([4,3], seed=1)
  call @no_grad_writes(%x)
}

func @empty_input(%x: f32[0,3]) {
  mul_(%x, 2.0)
  %a = t(%x)
  add_(%a, 1.0)
  return %x, %a
}

case "empty_input" {
  %x = zeros([0,3])
  call @empty_input(%x)
}
