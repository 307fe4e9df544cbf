# chains.td -- views of views, and writes on either side of them;
# every way of execution does what eager does.

func @views_of_views(%x: f32[4,3]) {
  %a = transpose(%x, 0, 1)
  %b = select(%a, 0, 1)
  %v = slice(%b, 0, 1, 4, 2)
  mul_(%v, 2.0)
  return %x, %v
}

case "views_of_views" {
  %x = randn([4,3], seed=1)
  call @views_of_views(%x)
}

func @base_then_view(%x: f32[4,3]) {
  %v = select(%x, 0, 1)
  mul_(%x, 2.0)
  add_(%v, 1.0)
  mul_(%x, 3.0)
  return %x, %v
}

case "base_then_view" {
  %x = randn([4,3], seed=1)
  call @base_then_view(%x)
}

func @view_then_base(%x: f32[4,3]) {
  %v = select(%x, 0, 1)
  add_(%v, 1.0)
  mul_(%x, 3.0)
  return %x, %v
}

case "view_then_base" {
  %x = randn([4,3], seed=1)
  call @view_then_base(%x)
}

func @read_before_and_after(%x: f32[4,3]) {
  %v = select(%x, 0, 1)
  %b = mul(%v, 2.0)
  add_(%x, 1.0)
  %c = mul(%v, 2.0)
  return %b, %c, %v
}

case "read_before_and_after" {
  %x = randn([4,3], seed=1)
  call @read_before_and_after(%x)
}

func @siblings(%x: f32[4,3]) {
  %a = slice(%x, 0, 0, 3)
  %v = slice(%x, 0, 1, 4)
  mul_(%a, 2.0)
  add_(%v, 1.0)
  mul_(%a, 3.0)
  return %x, %a, %v
}

case "siblings" {
  %x = randn([4,3], seed=1)
  call @siblings(%x)
}

func @diagonal_of_transpose(%x: f32[4,3]) {
  %a = t(%x)
  %v = diagonal(%a, 1)
  add_(%v, 5.0)
  mul_(%a, 2.0)
  return %x, %v
}

case "diagonal_of_transpose" {
  %x = randn([4,3], seed=1)
  call @diagonal_of_transpose(%x)
}

func @unfold_of_slice(%x: f32[4,3]) {
  %a = slice(%x, 0, 0, 4, 2)
  %v = unfold(%a, 1, 1, 1)
  mul_(%v, 2.0)
  return %x, %v
}

case "unfold_of_slice" {
  %x = randn([4,3], seed=1)
  call @unfold_of_slice(%x)
}

func @select_of_overlapping_unfold(%x: f32[4,3]) {
  %a = unfold(%x, 0, 2, 1)
  %v = select(%a, 0, 1)
  mul_(%v, 2.0)
  return %x, %a, %v
}

case "select_of_overlapping_unfold" {
  %x = randn([4,3], seed=1)
  call @select_of_overlapping_unfold(%x)
}

func @select_of_expand(%x: f32[4,3]) {
  %a = select(%x, 0, 2)
  %e = expand(%a, [5,3])
  %v = select(%e, 0, 3)
  add_(%v, 1.0)
  add_(%v, 1.0)
  return %x, %e, %v
}

case "select_of_expand" {
  %x = randn([4,3], seed=1)
  call @select_of_expand(%x)
}

func @expand_all_of_select(%x: f32[4,3]) {
  %a = unsqueeze(%x, 0)
  %e = expand(%a, [2,4,3])
  %s = select(%e, 0, 1)
  %v = select(%s, 1, 0)
  add_(%v, 5.0)
  return %x, %e
}

case "expand_all_of_select" {
  %x = randn([4,3], seed=1)
  call @expand_all_of_select(%x)
}

func @fill_expanded(%x: f32[4,3]) {
  %a = select(%x, 0, 2)
  %v = expand(%a, [5,3])
  fill_(%v, 3.0)
  return %x, %v
}

case "fill_expanded" {
  %x = randn([4,3], seed=1)
  call @fill_expanded(%x)
}

func @zero_expanded(%x: f32[4,3]) {
  %a = select(%x, 0, 2)
  %v = expand(%a, [5,3])
  zero_(%v)
  return %x, %v
}

case "zero_expanded" {
  %x = randn([4,3], seed=1)
  call @zero_expanded(%x)
}

func @as_strided_of_slice(%x: f32[4,3]) {
  %a = slice(%x, 0, 1, 3)
  %v = as_strided(%a, [2], [5], 2)
  mul_(%v, 2.0)
  add_(%a, 1.0)
  return %x, %v
}

case "as_strided_of_slice" {
  %x = randn([4,3], seed=1)
  call @as_strided_of_slice(%x)
}

func @as_strided_after_write(%x: f32[4,3]) {
  mul_(%x, 2.0)
  %a = t(%x)
  %v = as_strided(%a, [2,3], [6,2], 0)
  add_(%v, 1.0)
  mul_(%a, 2.0)
  return %x, %v
}

case "as_strided_after_write" {
  %x = randn([4,3], seed=1)
  call @as_strided_after_write(%x)
}

func @overlapping_as_strided_part(%x: f32[4,3]) {
  %a = as_strided(%x, [3,3], [1,2], 0)
  %v = select(%a, 0, 1)
  add_(%v, 1.0)
  return %x, %a, %v
}

case "overlapping_as_strided_part" {
  %x = randn([4,3], seed=1)
  call @overlapping_as_strided_part(%x)
}

func @dtype_of_view(%x: f32[4,3]) {
  %a = slice(%x, 0, 1, 3)
  %v = view_dtype(%a, i32)
  %w = select(%v, 0, 1)
  bitwise_xor_(%w, 1)
  add_(%a, 1.0)
  return %x, %v
}

case "dtype_of_view" {
  %x = randn([4,3], seed=1)
  call @dtype_of_view(%x)
}

func @as_strided_of_dtype(%x: f32[4,3]) {
  %a = view_dtype(%x, i32)
  %v = as_strided(%a, [2], [3], 1)
  bitwise_xor_(%v, 1)
  return %x, %v
}

case "as_strided_of_dtype" {
  %x = randn([4,3], seed=1)
  call @as_strided_of_dtype(%x)
}

func @unbind_of_split(%x: f32[4,3]) {
  %p... = split(%x, 2, 0)
  %q... = unbind(%p.1, 1)
  add_(%q.2, 1.0)
  mul_(%p.1, 2.0)
  return %p.0, %q.0, %q.2
}

case "unbind_of_split" {
  %x = randn([4,3], seed=1)
  call @unbind_of_split(%x)
}

func @deep(%x: f32[4,3]) {
  %a = view(%x, [2,2,3])
  %b = transpose(%a, 0, 2)
  %c = select(%b, 1, 0)
  %d = t(%c)
  %e = unsqueeze(%d, 1)
  %v = slice(%e, 2, 1)
  mul_(%v, 2.0)
  add_(%c, 1.0)
  return %x, %a, %v
}

case "deep" {
  %x = randn([4,3], seed=1)
  call @deep(%x)
}

func @detached_alias(%x: f32[4,3]) {
  %a = detach(%x)
  %v = select(%a, 0, 1)
  mul_(%v, 2.0)
  add_(%x, 1.0)
  return %a, %v
}

case "detached_alias" {
  %x = randn([4,3], seed=1)
  call @detached_alias(%x)
}

func @transposed_layout_kept(%x: f32[4,3]) {
  %a = t(%x)
  %y = mul(%a, 1.0)
  %v = select(%y, 0, 1)
  add_(%v, 1.0)
  %z = add(%y, 1.0)
  return %y, %v, %z
}

case "transposed_layout_kept" {
  %x = randn([4,3], seed=1)
  call @transposed_layout_kept(%x)
}

func @fresh_inside(%x: f32[4,3]) {
  %y = add(%x, 1.0)
  %v = t(%y)
  mul_(%v, 2.0)
  add_(%y, %x)
  return %y, %v
}

case "fresh_inside" {
  %x = randn([4,3], seed=1)
  call @fresh_inside(%x)
}

func @two_views_escape(%x: f32[4,3]) {
  %y = add(%x, 1.0)
  %a = select(%y, 0, 0)
  %v = select(%y, 0, 1)
  mul_(%v, 2.0)
  return %a, %v
}

case "two_views_escape" {
  %x = randn([4,3], seed=1)
  call @two_views_escape(%x)
}

func @clone_cuts(%x: f32[4,3]) {
  %y = clone(%x)
  %v = t(%y)
  mul_(%v, 2.0)
  return %x, %v
}

case "clone_cuts" {
  %x = randn([4,3], seed=1)
  call @clone_cuts(%x)
}

func @contiguous_may_alias(%x: f32[4,3]) {
  %y = contiguous(%x)
  mul_(%y, 2.0)
  return %x, %y
}

case "contiguous_may_alias" {
  %x = randn([4,3], seed=1)
  call @contiguous_may_alias(%x)
}

func @whole_written_through_parts(%x: f32[4,3]) {
  %p... = unbind(%x, 0)
  copy_(%p.0, %p.3)
  copy_(%p.3, %p.1)
  copy_(%p.1, %p.0)
  return %x
}

case "whole_written_through_parts" {
  %x = randn([4,3], seed=1)
  call @whole_written_through_parts(%x)
}

func @expand_to_nothing(%x: f32[1,4]) {
  %d = diagonal(%x, 1)
  %v = expand(%d, [2,0])
  add_(%v, 1.0)
  return %x, %v
}

case "expand_to_nothing" {
  %x = randn([1,4], seed=1)
  call @expand_to_nothing(%x)
}
