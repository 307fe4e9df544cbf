# meta.td -- writes of geometry and storages;
# every way of execution does what eager does.

func @t_(%x: f32[4,3]) {
  t_(%x)
  return %x
}

case "t_" {
  %x = randn([4,3], seed=1)
  call @t_(%x)
}

func @t_then_write(%x: f32[4,3]) {
  t_(%x)
  %a = select(%x, 0, 0)
  mul_(%a, 2.0)
  return %x, %a
}

case "t_then_write" {
  %x = randn([4,3], seed=1)
  call @t_then_write(%x)
}

func @write_then_t(%x: f32[4,3]) {
  mul_(%x, 2.0)
  t_(%x)
  %y = add(%x, 1.0)
  return %y
}

case "write_then_t" {
  %x = randn([4,3], seed=1)
  call @write_then_t(%x)
}

func @transpose_(%x: f32[4,3]) {
  transpose_(%x, 1, 0)
  %y = mul(%x, 2.0)
  return %y
}

case "transpose_" {
  %x = randn([4,3], seed=1)
  call @transpose_(%x)
}

func @unsqueeze_squeeze(%x: f32[4,3]) {
  unsqueeze_(%x, 0)
  squeeze_dim_(%x, 0)
  add_(%x, 1.0)
  return %x
}

case "unsqueeze_squeeze" {
  %x = randn([4,3], seed=1)
  call @unsqueeze_squeeze(%x)
}

func @squeeze_(%x: f32[4,3]) {
  %a = unsqueeze(%x, 0)
  squeeze_(%a)
  mul_(%a, 2.0)
  return %a, %x
}

case "squeeze_" {
  %x = randn([4,3], seed=1)
  call @squeeze_(%x)
}

func @as_strided_(%x: f32[4,3]) {
  as_strided_(%x, [2,2], [3,1], 1)
  mul_(%x, 2.0)
  return %x
}

case "as_strided_" {
  %x = randn([4,3], seed=1)
  call @as_strided_(%x)
}

func @cancel(%x: f32[4,3]) {
  t_(%x)
  t_(%x)
  return %x
}

case "cancel" {
  %x = randn([4,3], seed=1)
  call @cancel(%x)
}

func @meta_of_intermediate(%x: f32[4,3]) {
  %y = add(%x, 1.0)
  %v = select(%y, 0, 0)
  t_(%y)
  mul_(%y, 2.0)
  return %y, %v
}

case "meta_of_intermediate" {
  %x = randn([4,3], seed=1)
  call @meta_of_intermediate(%x)
}

func @meta_of_a_view(%x: f32[4,3]) {
  %v = slice(%x, 0, 0, 2)
  t_(%v)
  mul_(%v, 2.0)
  add_(%x, 1.0)
  return %x, %v
}

case "meta_of_a_view" {
  %x = randn([4,3], seed=1)
  call @meta_of_a_view(%x)
}

func @resize_smaller(%x: f32[4,3]) {
  resize_(%x, [2,2])
  mul_(%x, 2.0)
  return %x
}

case "resize_smaller" {
  %x = randn([4,3], seed=1)
  call @resize_smaller(%x)
}

func @write_then_resize(%x: f32[4,3]) {
  mul_(%x, 2.0)
  resize_(%x, [2,2])
  return %x
}

case "write_then_resize" {
  %x = randn([4,3], seed=1)
  call @write_then_resize(%x)
}

func @resize_larger(%x: f32[4,3]) {
  %y = add(%x, 1.0)
  %v = select(%y, 0, 1)
  resize_(%y, [5,3])
  %r = select(%y, 0, 4)
  fill_(%r, 1.0)
  add_(%y, 1.0)
  return %y, %v
}

case "resize_larger" {
  %x = randn([4,3], seed=1)
  call @resize_larger(%x)
}

func @resize_input_larger(%x: f32[4,3]) {
  resize_(%x, [6,3])
  fill_(%x, 2.0)
  return %x
}

case "resize_input_larger" {
  %x = randn([4,3], seed=1)
  call @resize_input_larger(%x)
}

func @resize_then_old_view(%x: f32[4,3]) {
  %v = t(%x)
  resize_(%x, [6])
  mul_(%v, 2.0)
  return %x, %v
}

case "resize_then_old_view" {
  %x = randn([4,3], seed=1)
  call @resize_then_old_view(%x)
}

func @set_to_fresh(%x: f32[4,3]) {
  %y = add(%x, 1.0)
  set_(%x, %y)
  return %x
}

case "set_to_fresh" {
  %x = randn([4,3], seed=1)
  call @set_to_fresh(%x)
}

func @set_to_input(%x: f32[4,3], %y: f32[4,3]) {
  set_(%x, %y)
  mul_(%y, 2.0)
  %z = add(%x, %y)
  return %z
}

case "set_to_input" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @set_to_input(%x, %y)
}

func @set_then_write_self(%x: f32[4,3], %y: f32[4,3]) {
  set_(%x, %y)
  mul_(%x, 2.0)
  return %x, %y
}

case "set_then_write_self" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @set_then_write_self(%x, %y)
}

func @set_and_back(%x: f32[4,3], %y: f32[4,3]) {
  %o = alias(%x)
  set_(%x, %y)
  set_(%x, %o)
  %z = add(%x, %y)
  return %z
}

case "set_and_back" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @set_and_back(%x, %y)
}

func @set_geometry(%x: f32[4,3], %y: f32[4,3]) {
  set_(%x, %y, 1, [2,2], [3,1])
  mul_(%x, 2.0)
  return %x, %y
}

case "set_geometry" {
  %x = randn([4,3], seed=1)
  %y = randn([4,3], seed=2)
  call @set_geometry(%x, %y)
}

func @write_old_view_after_set(%x: f32[4,3]) {
  %v = t(%x)
  %y = clone(%x)
  set_(%x, %y)
  mul_(%v, 2.0)
  return %x, %v
}

case "write_old_view_after_set" {
  %x = randn([4,3], seed=1)
  call @write_old_view_after_set(%x)
}

func @grow_use_shrink(%a: f32[0]) {
  resize_(%a, [8])
  fill_(%a, 3.0)
  %y = add(%a, 1.0)
  resize_(%a, [0])
  return %y
}
case "test_input_mutation_storage_resize_up_down" {
  %a = zeros([0])
  call @grow_use_shrink(%a)
}
