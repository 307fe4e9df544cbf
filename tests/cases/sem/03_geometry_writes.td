# 03_geometry_writes.td -- inputs whose sizes, strides or flags are written: the
# third group of tests/README.md.

func @transposed(%a: f32[4,3], %b: f32[3,4]) {
  transpose_(%a, 1, 0)
  %y = add(%a, %b)
  return %y
}
case "test_input_mutation_metadata NL" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([3,4], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  call @transposed(%a, %b)
  backward seed=3
}
case "test_input_mutation_metadata NRG" {
  %a = randn([4,3], seed=1)
  %b = randn([3,4], seed=2)
  call @transposed(%a, %b)
}
case "test_input_mutation_metadata RG is refused" {
  %a = randn([4,3], seed=1, requires_grad=true)
  %b = randn([3,4], seed=2, requires_grad=true)
  call @transposed(%a, %b)
}

func @transposed_written(%a: f32[4,3]) {
  transpose_(%a, 1, 0)
  mul_(%a, 2.0)
  %y = add(%a, 1.0)
  return %y
}
case "test_input_mutation_metadata2 NL" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @transposed_written(%a)
  backward seed=3
}
case "test_input_mutation_metadata2 NRG" {
  %a = randn([4,3], seed=1)
  call @transposed_written(%a)
}

func @views_of_three(%a: f32[4], %b: f32[4], %c: f32[2,2]) {
  mul_(%b, 3.0)
  t_(%c)
  %x = view(%a, [2,2])
  %y = view(%b, [2,2])
  %z = view(%c, [2,2])
  return %x, %y, %z
}
case "test_input_output_view_metadata_mutate_multiple NL" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([4], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  %c0 = randn([2,2], seed=3, requires_grad=true)
  %c = add(%c0, 1.0)
  call @views_of_three(%a, %b, %c)
  backward seed=3
}

func @view_multiple(%a: f32[2,4], %b: f32[2,4], %c: f32[2,4], %d: f32[4]) {
  transpose_(%b, 1, 0)
  add_(%c, 1.0)
  %x = add(%d, 1.0)
  %y = diagonal(%b)
  %z = add(%a, %c)
  return %x, %y, %z
}
case "test_input_mutation_output_view_multiple NL" {
  %a0 = randn([2,4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([2,4], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  %c0 = randn([2,4], seed=3, requires_grad=true)
  %c = add(%c0, 1.0)
  %d0 = randn([4], seed=4, requires_grad=true)
  %d = add(%d0, 1.0)
  call @view_multiple(%a, %b, %c, %d)
  backward seed=3
}

func @row_written(%a: f32[4,4]) {
  t_(%a)
  %r = select(%a, 0, 0)
  mul_(%r, 2.0)
  %y = view(%a, [4,4])
  return %y
}
case "test_input_data_and_metadata_mutation NL" {
  %a0 = randn([4,4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @row_written(%a)
  backward seed=3
}

func @view_and_inplace_view(%a: f32[2,2], %b: f32[2,2]) {
  t_(%a)
  %x = view(%b, [2,2])
  %y = view(%a, [2,2])
  return %x, %y
}
case "test_view_and_inplace_view NL" {
  %a0 = randn([2,2], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([2,2], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  call @view_and_inplace_view(%a, %b)
  backward seed=3
}

func @aliases_transposed(%a: f32[2,2] @0, %b: f32[2,2] @0) {
  t_(%a)
  %y = add(%a, %b)
  return %y
}
case "test_input_metadata_mutation_aliases NL" {
  %x0 = randn([2,2], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %a = view(%x, [2,2])
  %b = view(%x, [2,2])
  call @aliases_transposed(%a, %b)
  backward seed=3
}
case "test_input_metadata_mutation_aliases NRG" {
  %x = randn([2,2], seed=1)
  %a = view(%x, [2,2])
  call @aliases_transposed(%a, %x)
}

func @require_grad(%a: f32[3,3], %b: f32[3,3]) {
  requires_grad_(%a)
  %x = mul(%a, 3.0)
  %y = mul(%b, 4.0)
  return %x, %y
}
case "test_input_inplace_requires_grad_true" {
  %a = randn([3,3], seed=1)
  %b = randn([3,3], seed=2, requires_grad=true)
  call @require_grad(%a, %b)
  backward seed=3
}

# The wrapped tensors of these rows are plain ones here.
func @transpose_and_back(%a: f32[4,3]) {
  transpose_(%a, 0, 1)
  %p = mul(%a, 2.0)
  %y = transpose(%p, 0, 1)
  return %y
}
case "test_subclass_metadata_mutation NL" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @transpose_and_back(%a)
  backward seed=3
}
case "test_subclass_metadata_mutation NRG" {
  %a = randn([4,3], seed=1)
  call @transpose_and_back(%a)
}

func @transpose_strided(%a: f32[4,3]{6,2}) {
  transpose_(%a, 0, 1)
  %p = mul(%a, 2.0)
  %y = transpose(%p, 0, 1)
  return %y
}
case "test_subclass_metadata_mutation_noncontiguous_input NL" {
  %x0 = randn([4,6], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %a = slice(%x, 1, 0, 6, 2)
  call @transpose_strided(%a)
  backward seed=3
}
case "test_subclass_metadata_mutation_noncontiguous_input NRG" {
  %x = randn([4,6], seed=1)
  %a = slice(%x, 1, 0, 6, 2)
  call @transpose_strided(%a)
}

func @transpose_write(%a: f32[4,3]) {
  transpose_(%a, 0, 1)
  mul_(%a, 2.0)
  %y = add(%a, 1.0)
  return %y, %a
}
case "codegen: test_data_and_metadata_mutation NL" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @transpose_write(%a)
  backward seed=3
}

# Beyond the rows: writes that cancel leave no trace.
func @there_and_back(%a: f32[4,3]) {
  t_(%a)
  t_(%a)
  %y = add(%a, 1.0)
  return %y
}
case "metadata writes that cancel NL" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @there_and_back(%a)
  backward seed=3
}

# A leading dim of one put there unseen is summed away; others are refused.
func @unsqueezed_unseen(%a: f32[4,3]) {
  no_grad {
    unsqueeze_(%a, 0)
  }
  %y = mul(%a, %a)
  return %y, %a
}
func @turned_unseen(%a: f32[4,3]) {
  no_grad {
    t_(%a)
  }
  %y = mul(%a, %a)
  return %y
}
case "metadata writes with gradients off NL" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @unsqueezed_unseen(%a)
  backward seed=3
}
case "metadata writes with gradients off are refused by backward NL" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @turned_unseen(%a)
  backward seed=3
}
