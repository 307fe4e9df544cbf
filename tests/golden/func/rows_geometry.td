# run: functionalize functional
# Graphs of rows of tests/README.md: inputs that change their geometry or bytes.

# test_input_mutation_metadata: the view it has become, and no data
func @transposed(%a: f32[4,3], %b: f32[3,4]) {
  transpose_(%a, 1, 0)
  %y = add(%a, %b)
  return %y
}

# test_input_output_view_metadata_mutate_multiple: b new, c a view
func @views_of_three(%a: f32[4], %b: f32[4], %c: f32[2,2]) {
  mul_(%b, 3.0)
  t_(%c)
  %x = view(%a, [2,2])
  %y = view(%b, [2,2])
  %z = view(%c, [2,2])
  return %x, %y, %z
}

# test_input_mutation_output_view_multiple
func @view_multiple(%a: f32[2,4], %b: f32[2,4], %c: f32[2,4], %d: f32[4]) {
  transpose_(%b, 1, 0)
  add_(%c, 1.0)
  %x = add(%d, 1.0)
  %y = diagonal(%b)
  %z = add(%a, %c)
  return %x, %y, %z
}

# test_input_data_and_metadata_mutation: a scatter, turned once
func @row_written(%a: f32[4,4]) {
  t_(%a)
  %r = select(%a, 0, 0)
  mul_(%r, 2.0)
  %y = view(%a, [4,4])
  return %y
}

# test_view_and_inplace_view: views alone
func @view_and_inplace_view(%a: f32[2,2], %b: f32[2,2]) {
  t_(%a)
  %x = view(%b, [2,2])
  %y = view(%a, [2,2])
  return %x, %y
}

# test_input_metadata_mutation_aliases: b is left alone
func @aliases_transposed(%a: f32[2,2] @0, %b: f32[2,2] @0) {
  t_(%a)
  %y = add(%a, %b)
  return %y
}

# metadata writes that cancel leave nothing
func @there_and_back(%a: f32[4,3]) {
  t_(%a)
  t_(%a)
  %y = add(%a, 1.0)
  return %y
}

# test_set__and_data_mutation_good: b and a are one value
func @set_then_write_source(%a: f32[3], %b: f32[3]) {
  no_grad {
    set_(%a, %b)
  }
  mul_(%b, 2.0)
  %y = add(%a, %b)
  return %y
}

# test_input_mutation_set__nop: one output
func @set_and_back(%a: f32[3], %b: f32[3]) {
  %o = alias(%a)
  no_grad {
    set_(%a, %b)
    set_(%a, %o)
  }
  %y = add(%a, %b)
  return %y
}

# test_input_mutation_storage_resize_up
func @grow_and_fill(%a: f32[0]) {
  resize_(%a, [8])
  %o = ones([8])
  no_grad {
    copy_(%a, %o)
  }
  %y = add(%a, 1.0)
  return %y
}

# test_dupe_arg_torture, as two tensors
func @torture(%x: f32[3,3], %y: f32[3,3]) {
  t_(%x)
  unsqueeze_(%y, 0)
  %s = add(%x, %y)
  return %s
}
---
func @transposed(%a: f32[4,3] @0, %b: f32[3,4]) {
  %2 = transpose(%a, 1, 0) : f32[3,4]{1,3} @0
  %3 = add(%2, %b) : f32[3,4]{1,3}
  return %3
}

func @views_of_three(%a: f32[4], %b: f32[4], %c: f32[2,2]) {
  %3 = mul(%b, 3.0) : f32[4]
  return %3 <update 1>
}

func @view_multiple(%a: f32[2,4], %b: f32[2,4], %c: f32[2,4], %d: f32[4]) {
  %4 = add(%c, 1.0) : f32[2,4]
  %5 = add(%d, 1.0) : f32[4]
  %6 = add(%a, %4) : f32[2,4]
  return %4 <update 2>, %5, %6
}

func @row_written(%a: f32[4,4] @0) {
  %1 = t(%a) : f32[4,4]{1,4} @0
  %2 = select(%1, 0, 0) : f32[4]{4} @0
  %3 = mul(%2, 2.0) : f32[4]
  %4 = select_scatter(%1, %3, 0, 0) : f32[4,4]{1,4} @1
  t(%4) : f32[4,4] @1
  %6 = select(%4, 0, 0) : f32[4]{4} @1
  return %6 <base>
}

func @view_and_inplace_view(%a: f32[2,2], %b: f32[2,2]) {
  return
}

func @aliases_transposed(%a: f32[2,2] @0, %b: f32[2,2] @0) {
  %2 = t(%a) : f32[2,2]{1,2} @0
  %3 = add(%2, %b) : f32[2,2]{1,2}
  return %3
}

func @there_and_back(%a: f32[4,3] @0) {
  %1 = t(%a) : f32[3,4]{1,3} @0
  %2 = t(%1) : f32[4,3] @0
  %3 = add(%2, 1.0) : f32[4,3]
  return %3
}

func @set_then_write_source(%a: f32[3], %b: f32[3]) {
  %2 = mul(%b, 2.0) : f32[3]
  %3 = add(%2, %2) : f32[3]
  return %2 <update 1>, %3
}

func @set_and_back(%a: f32[3], %b: f32[3]) {
  %2 = add(%a, %b) : f32[3]
  return %2
}

func @grow_and_fill(%a: f32[0]) {
  %1 = zeros([8], f32) : f32[8] @0
  %2 = ones([8]) : f32[8]
  %3 = as_strided(%1, [8], [1], 0) : f32[8] @0
  %4 = copy(%3, %2) : f32[8]
  as_strided_scatter(%1, %4, [8], [1], 0) : f32[8]
  %6 = add(%4, 1.0) : f32[8]
  return %4 <update 0>, %6
}

func @torture(%x: f32[3,3] @0, %y: f32[3,3] @1) {
  %2 = t(%x) : f32[3,3]{1,3} @0
  %3 = unsqueeze(%y, 0) : f32[1,3,3] @1
  %4 = add(%2, %3) : f32[1,3,3]{9,1,3}
  return %4
}
