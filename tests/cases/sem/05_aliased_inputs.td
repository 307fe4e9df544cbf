# 05_aliased_inputs.td -- inputs that lie in one storage: the fifth group of
# tests/README.md.

func @write_alias(%a: f32[2] @0, %b: f32[2] @0) {
  add_(%a, 1.0)
  %y = add(%a, %b)
  return %y
}
case "test_input_mutation_aliases_other_input NL" {
  %x0 = randn([2,2], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %a = select(%x, 0, 0)
  %b = select(%x, 0, 0)
  call @write_alias(%a, %b)
  backward seed=3
}
case "test_input_mutation_aliases_other_input NRG" {
  %x = randn([2,2], seed=1)
  %a = select(%x, 0, 0)
  %b = select(%x, 0, 0)
  call @write_alias(%a, %b)
}

func @write_row(%a: f32[2] @0, %b: f32[2,2] @0) {
  add_(%a, 1.0)
  %y = add(%a, %b)
  return %y
}
case "test_input_mutation_aliases_other_input2 NL" {
  %x0 = randn([2,2], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %a = select(%x, 0, 0)
  call @write_row(%a, %x)
  backward seed=3
}
case "test_input_mutation_aliases_other_input2 NRG" {
  %x = randn([2,2], seed=1)
  %a = select(%x, 0, 0)
  call @write_row(%a, %x)
}

func @output_alias(%a: f32[2,2] @0, %b: f32[2,2], %c: f32[2,2] @0) {
  mul_(%c, 2.0)
  %x = add(%b, 1.0)
  %y = view(%c, [-1])
  return %x, %y
}
case "test_input_aliased_with_mutation_output_alias NL" {
  %s0 = randn([2,2], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = view(%s, [2,2])
  %b0 = randn([2,2], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  %c = view(%s, [2,2])
  call @output_alias(%a, %b, %c)
  backward seed=3
}
case "test_input_aliased_with_mutation_output_alias NRG" {
  %s = randn([2,2], seed=1)
  %a = view(%s, [2,2])
  %b = randn([2,2], seed=2)
  %c = view(%s, [2,2])
  call @output_alias(%a, %b, %c)
}

func @interleaved(%a: f32[4] @0, %scale: int, %b: f32[4] @0) {
  mul_(%b, 2.0)
  %y = add(%a, %scale)
  return %y
}
case "test_input_aliased_with_mutation_nontensor_interleaved NL" {
  %x0 = randn([4], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %a = view(%x, [4])
  %b = view(%x, [4])
  call @interleaved(%a, 3, %b)
  backward seed=3
}

func @more_numbers(%a: f32[4] @0, %m: int, %y: f32[4], %n: int, %c: f32[4] @0) {
  mul_(%c, 2.0)
  %p = mul(%a, %m)
  %q = mul(%y, %n)
  %r = add(%p, %q)
  return %r
}
case "test_input_aliased_with_mutation_multiple_nontensors NL" {
  %x0 = randn([4], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %a = view(%x, [4])
  %y0 = randn([4], seed=2, requires_grad=true)
  %y = add(%y0, 1.0)
  %c = view(%x, [4])
  call @more_numbers(%a, 3, %y, 5, %c)
  backward seed=3
}

func @three(%a: f32[4] @0, %b: f32[4] @0, %c: f32[4]) {
  mul_(%a, 2.0)
  %x = add(%b, 1.0)
  %y = add(%c, 1.0)
  return %x, %y
}
case "test_input_mutation_aliases_and_none_require_gradients c RG" {
  %s = randn([4], seed=1)
  %a = view(%s, [4])
  %b = view(%s, [4])
  %c = randn([4], seed=2, requires_grad=true)
  call @three(%a, %b, %c)
  backward seed=3
}
case "test_input_mutation_aliases_and_none_require_gradients c NRG" {
  %s = randn([4], seed=1)
  %a = view(%s, [4])
  %b = view(%s, [4])
  %c = randn([4], seed=2)
  call @three(%a, %b, %c)
}

func @out_of_order(%a: f32[4] @0, %b: f32[4] @1, %c: f32[4] @0, %d: f32[4] @1) {
  add_(%b, 1.0)
  unsqueeze_(%d, 0)
  %s = add(%a, %c)
  %x = add(%s, %d)
  %y = view(%b, [-1])
  return %x, %y
}
case "test_input_mutation_aliases_bases_out_of_order NL" {
  %s0 = randn([4], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %t0 = randn([4], seed=2, requires_grad=true)
  %t = add(%t0, 1.0)
  %a = view(%s, [-1])
  %b = view(%t, [-1])
  %c = view(%s, [-1])
  %d = view(%t, [-1])
  call @out_of_order(%a, %b, %c, %d)
  backward seed=3
}

func @everything(%a: f32[2,2] @0, %b: f32[2,2], %c: f32[2,2] @0) {
  mul_(%c, 2.0)
  t_(%b)
  %s = add(%a, %c)
  %x = view(%s, [-1])
  %y = t(%b)
  %z = unsqueeze(%x, 0)
  return %x, %y, %z
}
case "test_input_mutation_alias_everything NL" {
  %s0 = randn([2,2], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = view(%s, [2,2])
  %b0 = randn([2,2], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  %c = view(%s, [2,2])
  call @everything(%a, %b, %c)
  backward seed=3
}

func @detached_rows(%a: f32[4] @0, %b: f32[4]+4 @0) {
  add_(%a, 1.0)
  %y = add(%a, %b)
  return %y
}
case "test_synthetic_base_base_attribute_is_none" {
  %s0 = randn([2,4], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %p = select(%s, 0, 0)
  %a = detach(%p)
  %q = select(%s, 0, 1)
  %b = detach(%q)
  call @detached_rows(%a, %b)
}

# Layouts of one storage that do not overlap, however they lie.
func @blocks(%a: f32[2,4] @0, %b: f32[2,4]+8 @0) {
  mul_(%a, 3.0)
  mul_(%b, 2.0)
  %c = clone(%a, true)
  %d = clone(%b, true)
  %x = view(%c, [-1])
  %y = view(%d, [-1])
  %z = add(%x, %y)
  return %z
}
case "test_input_mutation_false_aliasing 1 two blocks of rows NL" {
  %s0 = randn([4,4], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = slice(%s, 0, 0, 2)
  %b = slice(%s, 0, 2, 4)
  call @blocks(%a, %b)
  backward seed=3
}
case "test_input_mutation_false_aliasing 1 two blocks of rows NRG" {
  %s = randn([4,4], seed=1)
  %a = slice(%s, 0, 0, 2)
  %b = slice(%s, 0, 2, 4)
  call @blocks(%a, %b)
}
case "test_input_mutation_false_aliasing 2 strided blocks at a distance NL" {
  %s0 = randn([8,10], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = as_strided(%s, [2,4], [10,1], 0)
  %b = as_strided(%s, [2,4], [10,1], 44)
  call @blocks(%a, %b)
  backward seed=3
}
case "test_input_mutation_false_aliasing 3 columns side by side NL" {
  %s0 = randn([2,8], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = slice(%s, 1, 0, 4)
  %b = slice(%s, 1, 4, 8)
  call @blocks(%a, %b)
  backward seed=3
}

func @squares(%a: f32[4,4]{9,1} @0, %b: f32[4,4]{9,1}+22 @0) {
  mul_(%a, 3.0)
  mul_(%b, 2.0)
  %c = clone(%a, true)
  %d = clone(%b, true)
  %x = view(%c, [-1])
  %y = view(%d, [-1])
  %z = add(%x, %y)
  return %z
}
case "test_input_mutation_false_aliasing 4 rows of nine, 22 apart NL" {
  %s0 = randn([256], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = as_strided(%s, [4,4], [9,1], 0)
  %b = as_strided(%s, [4,4], [9,1], 22)
  call @squares(%a, %b)
  backward seed=3
}
case "test_input_mutation_false_aliasing 5 rows of nine, 23 apart NL" {
  %s0 = randn([256], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = as_strided(%s, [4,4], [9,1], 0)
  %b = as_strided(%s, [4,4], [9,1], 23)
  call @squares(%a, %b)
  backward seed=3
}
case "test_input_mutation_false_aliasing overlap, 24 apart NL" {
  %s0 = randn([256], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = as_strided(%s, [4,4], [9,1], 0)
  %b = as_strided(%s, [4,4], [9,1], 24)
  call @squares(%a, %b)
  backward seed=3
}
case "test_input_mutation_false_aliasing overlap, 25 apart NL" {
  %s0 = randn([256], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = as_strided(%s, [4,4], [9,1], 0)
  %b = as_strided(%s, [4,4], [9,1], 25)
  call @squares(%a, %b)
  backward seed=3
}

func @square_and_rest(%a: f32[4,4]{64,1} @0, %b: f32[16]+196 @0) {
  mul_(%a, 3.0)
  mul_(%b, 2.0)
  %c = clone(%a, true)
  %x = view(%c, [-1])
  %z = add(%x, %b)
  return %z
}
case "test_input_mutation_false_aliasing 6 the rest from behind the last NL" {
  %s0 = randn([256], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = as_strided(%s, [4,4], [64,1], 0)
  %b = slice(%s, 0, 196, 212)
  call @square_and_rest(%a, %b)
  backward seed=3
}
case "test_input_mutation_false_aliasing overlap, the rest from the last NL" {
  %s0 = randn([256], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = as_strided(%s, [4,4], [64,1], 0)
  %b = slice(%s, 0, 195, 211)
  call @square_and_rest(%a, %b)
  backward seed=3
}

func @add_numbers(%t: f32[6] @0, %u: f32[4]+1 @0, %m: int, %n: int) {
  add_(%t, %m)
  add_(%u, %n)
  return %t, %u
}
case "test_duplicated_arguments_on_tensor_overlap" {
  %t = randn([6], seed=1)
  %u = slice(%t, 0, 1, 5)
  call @add_numbers(%t, %u, 3, 3)
}

func @both(%x: f32[1,4] @0, %y: f32[1,4] @0) {
  add_(%x, 1.0)
  add_(%y, 1.0)
  return %x
}
case "test_inputs_overlapping_unsqueeze_with_mutation" {
  %s = randn([4], seed=1)
  %x = unsqueeze(%s, 0)
  %y = unsqueeze(%s, 0)
  call @both(%x, %y)
}

func @both_flat(%x: f32[3]+1 @0, %y: f32[3]+1 @0) {
  add_(%x, 1.0)
  add_(%y, 1.0)
  return %x
}
case "test_inputs_overlapping_with_mutation_guard_base" {
  %s = randn([4], seed=1)
  %x = slice(%s, 0, 1)
  %y = slice(%s, 0, 1)
  call @both_flat(%x, %y)
}

func @sum_of_four(%a: f32[4], %b: f32[4], %c: f32[4], %d: f32[4]) {
  mul_(%a, 2.0)
  %s = add(%a, %b)
  %t = add(%s, %c)
  %y = add(%t, %d)
  return %y
}
case "test_different_inputs_overlapping_set_with_mutation a, b" {
  %s = randn([12], seed=1)
  %a = slice(%s, 0, 0, 4)
  %b = slice(%s, 0, 2, 6)
  %c = randn([4], seed=2)
  %d = randn([4], seed=3)
  call @sum_of_four(%a, %b, %c, %d)
}
case "test_different_inputs_overlapping_set_with_mutation a, b, c" {
  %s = randn([12], seed=1)
  %a = slice(%s, 0, 0, 4)
  %b = slice(%s, 0, 2, 6)
  %c = slice(%s, 0, 1, 5)
  %d = randn([4], seed=3)
  call @sum_of_four(%a, %b, %c, %d)
}

func @unwritten(%a: f32[4] @0, %b: f32[4]+2 @0) {
  %y = add(%a, %b)
  return %y
}
case "test_no_storage_overlap_guards_no_mutation" {
  %s0 = randn([6], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = slice(%s, 0, 0, 4)
  %b = slice(%s, 0, 2, 6)
  call @unwritten(%a, %b)
  backward seed=3
}

func @apart(%a: f32[4], %b: f32[4]) {
  add_(%a, 1.0)
  add_(%b, 1.0)
  %y = add(%a, %b)
  return %y
}
case "test_no_storage_overlap_guards_no_aliasing" {
  %a = randn([4], seed=1)
  %b = randn([4], seed=2)
  call @apart(%a, %b)
}

# Eight slices that lie apart, and one over half of them.
func @many(%a, %b, %c, %d, %e, %f, %g, %h, %z) {
  add_(%a, 1.0)
  add_(%b, 2.0)
  add_(%c, 3.0)
  add_(%d, 4.0)
  add_(%e, 5.0)
  add_(%f, 6.0)
  add_(%g, 7.0)
  add_(%h, 8.0)
  mul_(%z, 2.0)
  return %a, %d, %h, %z
}
case "test_inputs_overlapping_with_mutation_stress" {
  %s = randn([16], seed=1)
  %a, %b, %c, %d, %e, %f, %g, %h = split(%s, 2)
  %z = slice(%s, 0, 3, 11)
  call @many(%a, %b, %c, %d, %e, %f, %g, %h, %z)
}

# One storage without one base: eager does it, and so must we.
func @write_first(%a: f32[4], %b: f32[4]) {
  mul_(%a, 2.0)
  %y = add(%a, %b)
  return %y
}
case "test_merge_view_inputs_error_non_differentiable_views" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b = zeros([4])
  no_grad {
    set_(%b, %a)
  }
  call @write_first(%a, %b)
  backward seed=3
}
case "test_merge_view_inputs_error_different_bases" {
  %x = randn([4], seed=1)
  %z = zeros([4])
  set_(%z, %x)
  %a = view(%x, [4])
  %b = view(%z, [4])
  call @write_first(%a, %b)
}

func @first_half(%a: f32[6] @0, %b: f32[6]+2 @0) {
  mul_(%a, 2.0)
  %y = add(%a, %b)
  return %y
}
case "test_synthetic_base_codegen_emitted NL" {
  %s0 = randn([8], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = slice(%s, 0, 0, 6)
  %b = slice(%s, 0, 2)
  call @first_half(%a, %b)
  backward seed=3
}
case "test_synthetic_base_codegen_emitted NRG" {
  %s = randn([8], seed=1)
  %a = slice(%s, 0, 0, 6)
  %b = slice(%s, 0, 2)
  call @first_half(%a, %b)
}

func @twice(%x: f32[4]) {
  %y = mul(%x, 2.0)
  return %y
}
case "test_synthetic_base_no_codegen_when_not_needed" {
  %x = randn([4], seed=1, requires_grad=true)
  call @twice(%x)
  backward seed=3
}

func @write_and_turn(%a: f32[3,4] @0, %b: f32[3,4]+4 @0) {
  mul_(%a, 2.0)
  t_(%b)
  %s = sum(%b)
  %y = add(%a, %s)
  return %y
}
case "test_synthetic_base_codegen_metadata_mutation NL" {
  %s0 = randn([4,4], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = slice(%s, 0, 0, 3)
  %b = slice(%s, 0, 1)
  call @write_and_turn(%a, %b)
  backward seed=3
}
case "test_synthetic_base_codegen_metadata_mutation NRG" {
  %s = randn([4,4], seed=1)
  %a = slice(%s, 0, 0, 3)
  %b = slice(%s, 0, 1)
  call @write_and_turn(%a, %b)
}

func @two_groups(%a: f32[4] @0, %b: f32[4]+2 @0, %c: f32[4] @1, %d: f32[4]+2 @1) {
  mul_(%a, 2.0)
  add_(%d, 3.0)
  %x = add(%a, %b)
  %y = add(%c, %d)
  return %x, %y
}
case "test_synthetic_base_codegen_multiple_base_groups NL" {
  %s0 = randn([6], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %t0 = randn([6], seed=2, requires_grad=true)
  %t = add(%t0, 1.0)
  %a = slice(%s, 0, 0, 4)
  %b = slice(%s, 0, 2)
  %c = slice(%t, 0, 0, 4)
  %d = slice(%t, 0, 2)
  call @two_groups(%a, %b, %c, %d)
  backward seed=3
}

func @other_behind(%a: f32[4] @0, %b: f32[4]+2 @0, %c: f32[4]) {
  mul_(%a, 2.0)
  %s = add(%a, %b)
  %y = add(%s, %c)
  return %y
}
func @other_before(%c: f32[4], %a: f32[4] @0, %b: f32[4]+2 @0) {
  mul_(%a, 2.0)
  %s = add(%a, %b)
  %y = add(%s, %c)
  return %y
}
case "test_synthetic_base_codegen_with_non_aliased_args NL" {
  %s0 = randn([6], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = slice(%s, 0, 0, 4)
  %b = slice(%s, 0, 2)
  %c0 = randn([4], seed=2, requires_grad=true)
  %c = add(%c0, 1.0)
  call @other_behind(%a, %b, %c)
  backward seed=3
}
case "test_synthetic_base_codegen_non_aliased_before_aliased NL" {
  %s0 = randn([6], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %a = slice(%s, 0, 0, 4)
  %b = slice(%s, 0, 2)
  %c0 = randn([4], seed=2, requires_grad=true)
  %c = add(%c0, 1.0)
  call @other_before(%c, %a, %b)
  backward seed=3
}

func @detached_halves(%a: f32[4] @0, %b: f32[4]+2 @0) {
  add_(%a, 1.0)
  %y = add(%a, %b)
  return %y
}
case "test_synthetic_base_codegen_base_is_none" {
  %s0 = randn([6], seed=1, requires_grad=true)
  %s = add(%s0, 1.0)
  %p = slice(%s, 0, 0, 4)
  %a = detach(%p)
  %q = slice(%s, 0, 2)
  %b = detach(%q)
  call @detached_halves(%a, %b)
}
