# inputs.td -- arguments that alias, overlap or have gaps;
# every way of execution does what eager does.

func @same_tensor(%a: f32[3], %b: f32[3]) {
  add_(%a, 1.0)
  %y = add(%a, %b)
  return %y
}

case "same_tensor" {
  %x = randn([3], seed=1)
  call @same_tensor(%x, %x)
}

func @same_tensor_meta(%a: f32[4,3], %b: f32[4,3]) {
  t_(%a)
  unsqueeze_(%b, 0)
  %y = add(%a, %b)
  return %y
}

case "same_tensor_meta" {
  %x = randn([4,3], seed=1)
  call @same_tensor_meta(%x, %x)
}

func @two_views_of_one_row(%a: f32[3], %b: f32[3]) {
  add_(%a, 1.0)
  %y = add(%a, %b)
  return %y
}

case "two_views_of_one_row" {
  %x = randn([4,3], seed=1)
  %a = select(%x, 0, 1)
  %b = select(%x, 0, 1)
  call @two_views_of_one_row(%a, %b)
}

func @view_and_base(%a: f32[3]+3, %b: f32[4,3]) {
  add_(%a, 1.0)
  mul_(%b, 2.0)
  add_(%a, 1.0)
  return %a, %b
}

case "view_and_base" {
  %x = randn([4,3], seed=1)
  %a = select(%x, 0, 1)
  call @view_and_base(%a, %x)
}

func @base_and_view(%b: f32[4,3], %a: f32[3]+3) {
  add_(%a, 1.0)
  %y = mul(%b, 2.0)
  return %y
}

case "base_and_view" {
  %x = randn([4,3], seed=1)
  %a = select(%x, 0, 1)
  call @base_and_view(%x, %a)
}

func @partly_overlapping(%a: f32[6], %b: f32[6]+3) {
  mul_(%a, 2.0)
  add_(%b, 1.0)
  %y = add(%a, %b)
  return %y, %a
}

case "partly_overlapping" {
  %x = randn([9], seed=1)
  %a = slice(%x, 0, 0, 6)
  %b = slice(%x, 0, 3, 9)
  call @partly_overlapping(%a, %b)
}

func @apart_in_one_storage(%a: f32[2,3], %b: f32[2,3]+6) {
  mul_(%a, 3.0)
  mul_(%b, 2.0)
  %y = add(%a, %b)
  return %y
}

case "apart_in_one_storage" {
  %x = randn([4,3], seed=1)
  %a = slice(%x, 0, 0, 2)
  %b = slice(%x, 0, 2, 4)
  call @apart_in_one_storage(%a, %b)
}

func @interleaved_columns(%a: f32[4,2]{4,2}, %b: f32[4,2]{4,2}+1) {
  mul_(%a, 3.0)
  mul_(%b, 2.0)
  %y = add(%a, %b)
  return %y
}

case "interleaved_columns" {
  %x = randn([4,4], seed=1)
  %a = slice(%x, 1, 0, 4, 2)
  %b = slice(%x, 1, 1, 4, 2)
  call @interleaved_columns(%a, %b)
}

func @transposed_alias(%a: f32[4,3], %b: f32[3,4]{1,3}) {
  add_(%a, 1.0)
  mul_(%b, 2.0)
  %y = t(%b)
  return %y
}

case "transposed_alias" {
  %x = randn([4,3], seed=1)
  %b = t(%x)
  call @transposed_alias(%x, %b)
}

func @dtype_alias(%a: f32[4], %b: i32[4]) {
  bitwise_xor_(%b, 1)
  mul_(%a, 2.0)
  return %a, %b
}

case "dtype_alias" {
  %x = randn([4], seed=1)
  %b = view_dtype(%x, i32)
  call @dtype_alias(%x, %b)
}

func @meta_only_alias(%a: f32[4,3], %b: f32[4,3]) {
  t_(%a)
  %u = t(%a)
  %y = add(%u, %b)
  return %y
}

case "meta_only_alias" {
  %x = randn([4,3], seed=1)
  %a = alias(%x)
  call @meta_only_alias(%a, %x)
}

func @gaps(%a: f32[4,2]{3,1}) {
  add_(%a, 1.0)
  %v = t(%a)
  mul_(%v, 2.0)
  %y = clone(%a)
  return %y, %v
}

case "gaps" {
  %x = randn([4,3], seed=1)
  %a = slice(%x, 1, 0, 2)
  call @gaps(%a)
}

func @offset(%a: f32[2,3]+3) {
  %v = as_strided(%a, [3], [2], 4)
  mul_(%a, 3.0)
  add_(%v, 1.0)
  return %v, %a
}

case "offset" {
  %x = randn([4,3], seed=1)
  %a = slice(%x, 0, 1, 3)
  call @offset(%a)
}

func @column(%a: f32[4]{3}+1) {
  mul_(%a, 2.0)
  %y = add(%a, 1.0)
  return %y
}

case "column" {
  %x = randn([4,3], seed=1)
  %a = select(%x, 1, 1)
  call @column(%a)
}

func @returned_after_write(%a: f32[3]) {
  mul_(%a, 2.0)
  return %a, %a
}

case "returned_after_write" {
  %a = randn([3], seed=1)
  call @returned_after_write(%a)
}

func @returned_twice_with_view(%a: f32[4,3]) {
  %v = view(%a, [-1])
  %w = view(%a, [-1])
  add_(%v, 1.0)
  return %v, %w, %a
}

case "returned_twice_with_view" {
  %a = randn([4,3], seed=1)
  call @returned_twice_with_view(%a)
}

func @unwritten(%a: f32[4,3], %b: f32[4,3]) {
  %y = mul(%a, %b)
  %v = t(%a)
  return %y, %v, 3, none
}

case "unwritten" {
  %a = randn([4,3], seed=1)
  %b = randn([4,3], seed=2)
  call @unwritten(%a, %b)
}

func @unwritten_aliases(%a: f32[6], %b: f32[6]+3) {
  %y = mul(%a, %b)
  return %y
}

case "unwritten_aliases" {
  %x = randn([9], seed=1)
  %a = slice(%x, 0, 0, 6)
  %b = slice(%x, 0, 3, 9)
  call @unwritten_aliases(%a, %b)
}

func @four_inputs(%a: f32[4,3], %b: f32[4,3], %c: f32[4,3], %d: f32[3]+3) {
  mul_(%a, 2.0)
  %u = t(%c)
  add_(%d, 1.0)
  t_(%b)
  add_(%u, 1.0)
  %y = add(%a, %c)
  return %y, %u, %b
}

case "four_inputs" {
  %a = randn([4,3], seed=1)
  %b = randn([4,3], seed=2)
  %c = randn([4,3], seed=3)
  %d = select(%a, 0, 1)
  call @four_inputs(%a, %b, %c, %d)
}

func @expanded_input(%a: f32[4,3]{0,1}) {
  %y = add(%a, 1.0)
  fill_(%a, 2.0)
  return %y, %a
}

case "expanded_input" {
  %x = randn([3], seed=1)
  %a = expand(%x, [4,3])
  call @expanded_input(%a)
}

# the sizes of a view that takes gradients stay numbers where others are symbols
func @base_and_its_view(%x: f32[2,2] @0, %y: f32[2,2] @0) {
  no_grad {
    add_(%x, %y, 2)
  }
  return %y
}

case "a written base and its view" {
  %x = randn([2,2], seed=1, requires_grad=true)
  %y = view(%x, [2,2])
  call @base_and_its_view(%x, %y)
}

# a list nobody names
func @unnamed(%x: f32[2,3]) {
  %v... = unbind(%x, 0)
  %w... = chunk(%x, 3, 1)
  mul_(%x, 2.0)
  return %x
}

case "lists without names" {
  %x = randn([2,3], seed=1)
  call @unnamed(%x)
}

func @write_outside(%a: f32[2,3]+3) {
  %v = as_strided(%a, [3], [1], 0)
  add_(%v, 1.0)
  return %v
}

case "write_outside" {
  %x = randn([4,3], seed=1)
  %a = slice(%x, 0, 1, 3)
  call @write_outside(%a)
}
