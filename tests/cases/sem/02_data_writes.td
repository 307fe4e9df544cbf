# 02_data_writes.td -- inputs whose elements are written: the second group of
# tests/README.md.

func @write(%a: f32[3,3]) {
  mul_(%a, 2.0)
  %y = mul(%a, 3.0)
  return %y
}
case "test_input_mutation_simple NL" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @write(%a)
  backward seed=3
}
case "test_input_mutation_simple NRG" {
  %a = randn([3,3], seed=1)
  call @write(%a)
}
case "test_input_mutation_simple RG is refused" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @write(%a)
}

func @scaled(%a: f32[3,3], %b, %c: int) {
  %y = mul(%a, %c)
  return %y
}
case "test_input_mutation_simple_with_none_and_nontensor RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @scaled(%a, none, 3)
  backward seed=3
}
case "test_input_mutation_simple_with_none_and_nontensor NRG" {
  %a = randn([3,3], seed=1)
  call @scaled(%a, none, 3)
}

# What the caller's own view shows afterwards is seen by calling @look on it.
func @write_and_detach(%a: f32[4]) {
  mul_(%a, 2.0)
  %p = add(%a, 1.0)
  %y = detach(%p)
  return %y
}
func @look(%v) {
  return %v
}
case "test_input_mutation_modifies_autograd_meta_of_aliases" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %v = view(%a, [-1])
  call @write_and_detach(%a)
  %w = call @look(%v)
  %u = call @look(%a)
  backward %u, %w
}

func @write_return(%a: f32[3,3]) {
  mul_(%a, 2.0)
  return %a
}
case "test_input_mutation_is_output NL" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @write_return(%a)
  backward seed=3
}
case "test_input_mutation_is_output NRG" {
  %a = randn([3,3], seed=1)
  call @write_return(%a)
}

func @write_two(%a: f32[3,3], %b: f32[3,3], %c: f32[3,3]) {
  mul_(%a, 2.0)
  mul_(%c, 2.0)
  %s = add(%a, %b)
  %y = add(%s, %c)
  return %y
}
case "test_input_mutation_multiple NL" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([3,3], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  %c0 = randn([3,3], seed=3, requires_grad=true)
  %c = add(%c0, 1.0)
  call @write_two(%a, %b, %c)
  backward seed=3
}
case "test_input_mutation_multiple NRG" {
  %a = randn([3,3], seed=1)
  %b = randn([3,3], seed=2)
  %c = randn([3,3], seed=3)
  call @write_two(%a, %b, %c)
}

# Where PyTorch takes out=, here is a copy.
func @write_out(%a: f32[3,3], %b: f32[3,3]) {
  %s = sin(%a)
  %y = copy_(%b, %s)
  return %y
}
case "test_input_mutation_return NRG" {
  %a = randn([3,3], seed=1)
  %b = randn([3,3], seed=2)
  call @write_out(%a, %b)
}

func @write_detached(%a: f32[3,3]) {
  %d = detach(%a)
  mul_(%d, 2.0)
  %y = add(%a, 3.0)
  return %y
}
case "test_input_mutation_requires_grad_detach RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @write_detached(%a)
  backward seed=3
}
case "test_input_mutation_requires_grad_detach NL" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @write_detached(%a)
  backward seed=3
}

func @write_view_no_grad(%a: f32[4]) {
  %v = view(%a, [-1])
  no_grad {
    mul_(%v, 2.0)
  }
  %y = add(%a, 1.0)
  return %y
}
case "test_input_mutation_hidden_from_autograd_aliasing NL" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @write_view_no_grad(%a)
  backward seed=3
}

func @all_no_grad(%a: f32[4]) {
  no_grad {
    mul_(%a, 2.0)
    %y = add(%a, 3.0)
  }
  return %y
}
case "test_input_mutation_requires_grad_no_grad_inference_graph NL" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @all_no_grad(%a)
}
case "test_input_mutation_requires_grad_no_grad_inference_graph, then backward" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @all_no_grad(%a)
  backward %a
}

func @mixed_modes(%a: f32[4]) {
  %d = detach(%a)
  mul_(%d, 2.0)
  mul_(%a, 3.0)
  no_grad {
    mul_(%a, 4.0)
  }
  %y = add(%a, 5.0)
  return %y
}
case "test_input_mutation_requires_grad_no_grad_detach_mixed NL" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @mixed_modes(%a)
  backward seed=3
}

func @batch_norm(%x: f32[4,3], %w: f32[3], %b: f32[3], %m: f32[3], %v: f32[3]) {
  %y = batch_norm(%x, %w, %b, %m, %v, true, 0.5, 1e-5)
  return %y, %m, %v
}
case "test_input_mutation_batchnorm RG" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  %b = randn([3], seed=3, requires_grad=true)
  %m = tensor([0.5, -1, 2], f32)
  %v = tensor([1, 2, 3], f32)
  call @batch_norm(%x, %w, %b, %m, %v)
  backward seed=3
}
case "test_input_mutation_batchnorm NRG" {
  %x = randn([4,3], seed=1)
  %w = randn([3], seed=2)
  %b = randn([3], seed=3)
  %m = tensor([0.5, -1, 2], f32)
  %v = tensor([1, 2, 3], f32)
  call @batch_norm(%x, %w, %b, %m, %v)
}

func @batch_norm_eval(%x: f32[4,3], %w: f32[3], %b: f32[3], %m: f32[3], %v: f32[3]) {
  no_grad {
    %y = batch_norm(%x, %w, %b, %m, %v, false)
  }
  return %y
}
case "test_batchnorm_inference" {
  %x = randn([4,3], seed=1)
  %w = randn([3], seed=2, requires_grad=true)
  %b = randn([3], seed=3, requires_grad=true)
  %m = tensor([0.5, -1, 2], f32)
  %v = tensor([1, 2, 3], f32)
  call @batch_norm_eval(%x, %w, %b, %m, %v)
}

func @write_column(%a: f32[4]{3}) {
  mul_(%a, 2.0)
  %y = add(%a, 1.0)
  return %y
}
case "test_input_mutation_noncontiguous NL" {
  %x0 = randn([4,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %a = select(%x, 1, 0)
  call @write_column(%a)
  backward seed=3
}
case "test_input_mutation_noncontiguous NRG" {
  %x = randn([4,3], seed=1)
  %a = select(%x, 1, 0)
  call @write_column(%a)
}

func @add_into(%x: f32[4], %y: f32[4]) {
  %r = add_(%x, %y)
  return %r
}
case "test_new_inp_requires_grad_now" {
  %x = randn([4], seed=1)
  %y = randn([4], seed=2, requires_grad=true)
  call @add_into(%x, %y)
  backward seed=3
}

func @product_into(%buf: f32[4,4], %w: f32[4,3], %x: f32[3,4]) {
  %p = matmul(%w, %x)
  %r = add_(%buf, %p)
  return %r
}
case "test_buffer_copied_in_graph_with_different_shapes" {
  %buf = randn([4,4], seed=1)
  %w = randn([4,3], seed=2, requires_grad=true)
  %x = randn([3,4], seed=3, requires_grad=true)
  call @product_into(%buf, %w, %x)
  backward seed=3
}

func @module_norm(%x: f32[4,3], %w: f32[3], %b: f32[3], %m: f32[3], %v: f32[3], %n: i64[]) {
  add_(%n, 1)
  %y = batch_norm(%x, %w, %b, %m, %v, true)
  return %y
}
case "test_buffer_batch_norm" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  %b = randn([3], seed=3, requires_grad=true)
  %m = zeros([3])
  %v = ones([3])
  %n = tensor(0, i64)
  call @module_norm(%x, %w, %b, %m, %v, %n)
  backward seed=3
}

func @update_parameter(%p: f32[3], %y: f32[3]) {
  no_grad {
    add_(%p, %y)
  }
  return %y
}
case "test_mutation" {
  %p = randn([3], seed=1, requires_grad=true)
  %y = randn([3], seed=2)
  call @update_parameter(%p, %y)
}
case "test_mutation of a gradient" {
  %p = randn([3], seed=1, requires_grad=true)
  %y = randn([3], seed=2, requires_grad=true)
  call @update_parameter(%p, %y)
  backward seed=3
}

func @slice_assign(%a: f32[2,3,4,5], %b: f32[2,3,4,5]) {
  %s = slice(%a, 2, 1, 3)
  %t = slice(%s, 3, 0, 5, 2)
  %u = slice(%b, 2, 0, 2)
  %v = slice(%u, 3, 0, 5, 2)
  copy_(%t, %v)
  %y = view(%a, [6,20])
  return %y
}
case "test_mutation1 NRG" {
  %a = randn([2,3,4,5], seed=1)
  %b = randn([2,3,4,5], seed=2)
  call @slice_assign(%a, %b)
}
case "test_mutation1 NL" {
  %a0 = randn([2,3,4,5], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([2,3,4,5], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  call @slice_assign(%a, %b)
  backward seed=3
}

func @write_expanded(%x: i64[3]) {
  %y = expand(%x, [3,3])
  %r = select(%y, 0, 0)
  %e = select(%r, 0, 0)
  add_(%e, 5)
  return %y
}
case "test_aot_autograd_expand_mutation_functionalizes" {
  %x = arange(0, 3)
  call @write_expanded(%x)
}

func @write_expanded_times(%x: i64[3], %z: f32[3,3]) {
  %y = expand(%x, [3,3])
  %r = select(%y, 0, 0)
  %e = select(%r, 0, 0)
  add_(%e, 5)
  %p = mul(%y, %z)
  return %p
}
case "test_aot_autograd_expand_mutation_backwards" {
  %x = arange(0, 3)
  %z = randn([3,3], seed=1, requires_grad=true)
  call @write_expanded_times(%x, %z)
  backward seed=3
}

# Two calls stand for the break between two graphs.
func @store_zero(%a: i64[1]) {
  %e = select(%a, 0, 0)
  fill_(%e, 0)
  return %a
}
func @store_two(%a: i64[1], %b: i64[]) {
  %e = select(%a, 0, 0)
  fill_(%e, 2)
  return %b
}
case "test_alias_inputs" {
  %t = tensor([1], i64)
  %a = slice(%t, 0, 0, 1)
  %b = squeeze(%a)
  call @store_zero(%a)
  call @store_two(%a, %b)
}

func @codegen_multiple(%a: f32[4], %b: f32[4], %c: f32[4]) {
  mul_(%a, 2.0)
  add_(%c, 1.0)
  %s = add(%a, %b)
  %y = add(%s, %c)
  return %y
}
case "codegen: test_multiple_data_mutations NL" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([4], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  %c0 = randn([4], seed=3, requires_grad=true)
  %c = add(%c0, 1.0)
  call @codegen_multiple(%a, %b, %c)
  backward seed=3
}

func @write_nothing(%x: f32[4], %y: f32[4]) {
  %r = add(%x, %y)
  return %r
}
case "codegen: test_no_mutation_no_epilogue" {
  %x = randn([4], seed=1, requires_grad=true)
  %y = randn([4], seed=2, requires_grad=true)
  call @write_nothing(%x, %y)
  backward seed=3
}
