# run: functionalize functional
# Graphs of rows of tests/README.md: written inputs come first.

# test_make_fx_functionalize: relu out of place
func @relu_written(%a: f32[4,3]) {
  %b = mul(%a, 2.0)
  relu_(%b)
  return %b
}

# test_input_mutation_simple: the new value, then the output
func @write(%a: f32[3,3]) {
  mul_(%a, 2.0)
  %y = mul(%a, 3.0)
  return %y
}

# test_input_mutation_is_output: one value twice
func @write_return(%a: f32[3,3]) {
  mul_(%a, 2.0)
  return %a
}

# test_input_mutation_multiple: two new values, nothing of b
func @write_two(%a: f32[3,3], %b: f32[3,3], %c: f32[3,3]) {
  mul_(%a, 2.0)
  mul_(%c, 2.0)
  %s = add(%a, %b)
  %y = add(%s, %c)
  return %y
}

# test_input_mutation_return: what is returned is what was written
func @write_out(%a: f32[3,3], %b: f32[3,3]) {
  %s = sin(%a)
  %y = copy_(%b, %s)
  return %y
}

# test_input_mutation_hidden_from_autograd_aliasing
func @write_view_no_grad(%a: f32[4]) {
  %v = view(%a, [-1])
  no_grad {
    mul_(%v, 2.0)
  }
  %y = add(%a, 1.0)
  return %y
}

# test_batchnorm_inference: nothing is written back
func @batch_norm_eval(%x: f32[4,3], %w: f32[3], %b: f32[3], %m: f32[3], %v: f32[3]) {
  no_grad {
    %y = batch_norm(%x, %w, %b, %m, %v, false)
  }
  return %y
}

# test_new_inp_requires_grad_now: one sum twice
func @add_into(%x: f32[4], %y: f32[4]) {
  %r = add_(%x, %y)
  return %r
}

# test_buffer_batch_norm: mean, variance and counter
func @module_norm(%x: f32[4,3], %w: f32[3], %b: f32[3], %m: f32[3], %v: f32[3], %n: i64[]) {
  add_(%n, 1)
  %y = batch_norm(%x, %w, %b, %m, %v, true)
  return %y
}

# test_aot_autograd_expand_mutation_functionalizes
func @write_expanded(%x: i64[3]) {
  %y = expand(%x, [3,3])
  %r = select(%y, 0, 0)
  %e = select(%r, 0, 0)
  add_(%e, 5)
  return %y
}

# codegen: test_no_mutation_no_epilogue: the output alone
func @write_nothing(%x: f32[4], %y: f32[4]) {
  %r = add(%x, %y)
  return %r
}
---
func @relu_written(%a: f32[4,3]) {
  %1 = mul(%a, 2.0) : f32[4,3]
  %2 = relu(%1) : f32[4,3]
  return %2
}

func @write(%a: f32[3,3]) {
  %1 = mul(%a, 2.0) : f32[3,3]
  %2 = mul(%1, 3.0) : f32[3,3]
  return %1 <update 0>, %2
}

func @write_return(%a: f32[3,3]) {
  %1 = mul(%a, 2.0) : f32[3,3]
  return %1 <update 0>
}

func @write_two(%a: f32[3,3], %b: f32[3,3], %c: f32[3,3]) {
  %3 = mul(%a, 2.0) : f32[3,3]
  %4 = mul(%c, 2.0) : f32[3,3]
  %5 = add(%3, %b) : f32[3,3]
  %6 = add(%5, %4) : f32[3,3]
  return %3 <update 0>, %4 <update 2>, %6
}

func @write_out(%a: f32[3,3], %b: f32[3,3]) {
  %2 = sin(%a) : f32[3,3]
  %3 = copy(%b, %2) : f32[3,3]
  return %3 <update 1>
}

func @write_view_no_grad(%a: f32[4] @0) {
  %1 = view(%a, [-1]) : f32[4] @0
  %2 = mul(%1, 2.0) : f32[4] @1
  %3 = view(%2, [4]) : f32[4] @1
  %4 = add(%3, 1.0) : f32[4]
  return %2 <base>, %4
}

func @batch_norm_eval(
    %x: f32[4,3],
    %w: f32[3],
    %b: f32[3],
    %m: f32[3],
    %v: f32[3]) {
  new_empty(%m, [0]) : f32[0]
  new_empty(%m, [0]) : f32[0]
  %7 = _batch_norm_eval(%x, %w, %b, %m, %v, 1e-05) : f32[4,3]
  return %7
}

func @add_into(%x: f32[4], %y: f32[4]) {
  %2 = add(%x, %y) : f32[4]
  return %2 <update 0>
}

func @module_norm(
    %x: f32[4,3],
    %w: f32[3],
    %b: f32[3],
    %m: f32[3],
    %v: f32[3],
    %n: i64[]) {
  %6 = add(%n, 1) : i64[]
  %7, %8, %9, %10, %11 = _batch_norm_functional(%x, %w, %b, %m, %v, 0.1, 1e-05) : (f32[4,3], f32[3], f32[3], f32[3], f32[3])
  return %6 <update 5>, %10 <update 3>, %11 <update 4>, %7
}

func @write_expanded(%x: i64[3] @0) {
  %1 = expand(%x, [3,3]) : i64[3,3]{0,1} @0
  %2 = select(%1, 0, 0) : i64[3] @0
  %3 = select(%2, 0, 0) : i64[] @0
  %4 = add(%3, 5) : i64[]
  %5 = as_strided_scatter(%x, %4, [], [], 0) : i64[3] @1
  %6 = expand(%5, [3,3]) : i64[3,3]{0,1} @1
  %7 = select(%6, 0, 0) : i64[3] @1
  %8 = select(%7, 0, 0) : i64[] @1
  return %8 <base>
}

func @write_nothing(%x: f32[4], %y: f32[4]) {
  %2 = add(%x, %y) : f32[4]
  return %2
}
