# run: functionalize functional
# Graphs of rows of tests/README.md: inputs and outputs in one storage.

# test_input_mutation_aliases_other_input
func @write_alias(%a: f32[2] @0, %b: f32[2] @0) {
  add_(%a, 1.0)
  %y = add(%a, %b)
  return %y
}

# test_input_mutation_aliases_other_input2: a row put into its whole
func @write_row(%a: f32[2] @0, %b: f32[2,2] @0) {
  add_(%a, 1.0)
  %y = add(%a, %b)
  return %y
}

# test_input_aliased_with_mutation_output_alias
func @output_alias(%a: f32[2,2] @0, %b: f32[2,2], %c: f32[2,2] @0) {
  mul_(%c, 2.0)
  %x = add(%b, 1.0)
  %y = view(%c, [-1])
  return %x, %y
}

# test_input_mutation_aliases_and_none_require_gradients
func @three(%a: f32[4] @0, %b: f32[4] @0, %c: f32[4]) {
  mul_(%a, 2.0)
  %x = add(%b, 1.0)
  %y = add(%c, 1.0)
  return %x, %y
}

# test_input_mutation_aliases_bases_out_of_order: a and c untouched
func @out_of_order(%a: f32[4] @0, %b: f32[4] @1, %c: f32[4] @0, %d: f32[4] @1) {
  add_(%b, 1.0)
  unsqueeze_(%d, 0)
  %s = add(%a, %c)
  %x = add(%s, %d)
  %y = view(%b, [-1])
  return %x, %y
}

# test_input_mutation_alias_everything
func @everything(%a: f32[2,2] @0, %b: f32[2,2], %c: f32[2,2] @0) {
  mul_(%c, 2.0)
  t_(%b)
  %s = add(%a, %c)
  %x = view(%s, [-1])
  %y = t(%b)
  %z = unsqueeze(%x, 0)
  return %x, %y, %z
}

# test_input_mutation_false_aliasing: apart, so two plain products
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

# test_input_mutation_false_aliasing: 22 apart, likewise
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

# test_input_mutation_false_aliasing: 24 apart they overlap, and are put together
func @squares_overlap(%a: f32[4,4]{9,1} @0, %b: f32[4,4]{9,1}+24 @0) {
  mul_(%a, 3.0)
  mul_(%b, 2.0)
  %c = clone(%a, true)
  %d = clone(%b, true)
  %x = view(%c, [-1])
  %y = view(%d, [-1])
  %z = add(%x, %y)
  return %z
}

# test_no_storage_overlap_guards_no_mutation: nothing to put together
func @unwritten(%a: f32[4] @0, %b: f32[4]+2 @0) {
  %y = add(%a, %b)
  return %y
}

# test_input_output_view_simple: a view and nothing else
func @view(%a: f32[4,3]) {
  %v = view(%a, [-1])
  return %v
}

# test_input_output_view_mutate_multiple
func @write_two(%a: f32[4], %b: f32[4], %c: f32[4]) {
  mul_(%a, 2.0)
  mul_(%c, 3.0)
  %x = view(%b, [2,2])
  %y = view(%c, [2,2])
  return %x, %y
}

# test_input_mutation_and_output_view
func @write_and_view(%a: f32[3,3]) {
  add_(%a, 1.0)
  %v = view(%a, [-1])
  return %v
}

# test_output_aliases_multiple_inputs_get_correct_one
func @own_inputs(%a: f32[4] @0, %b: f32[2] @0) {
  %x = view(%a, [4])
  %y = view(%b, [2])
  return %x, %y
}

# test_output_aliases_intermediate_single
func @single(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  return %v
}

# test_output_aliases_intermediate_multiple_mixed
func @mixed(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %p = mul(%a, 4.0)
  %x = view(%o, [-1])
  %y = transpose(%p, 1, 0)
  %z = transpose(%o, 1, 0)
  return %x, %y, %z
}

# test_multi_output_views_of_input_are_grouped: one unbind
func @grouped(%x: f32[3,2]) {
  %p... = unbind(%x, 0)
  %u = unsqueeze(%p.2, 0)
  %s = sin(%x)
  %v = unsqueeze(%p.0, 0)
  return %u, %s, %v
}
---
func @write_alias(%a: f32[2] @0, %b: f32[2] @0) {
  %2 = add(%a, 1.0) : f32[2]
  %3 = add(%2, %2) : f32[2]
  return %2 <update 0>, %3
}

func @write_row(%a: f32[2] @0, %b: f32[2,2] @0) {
  %2 = add(%a, 1.0) : f32[2]
  %3 = as_strided_scatter(%b, %2, [2], [1], 0) : f32[2,2]
  %4 = add(%2, %3) : f32[2,2]
  return %2 <update 0>, %4
}

func @output_alias(%a: f32[2,2] @0, %b: f32[2,2], %c: f32[2,2] @0) {
  %3 = mul(%c, 2.0) : f32[2,2]
  %4 = add(%b, 1.0) : f32[2,2]
  return %3 <update 2>, %4
}

func @three(%a: f32[4] @0, %b: f32[4] @0, %c: f32[4]) {
  %3 = mul(%a, 2.0) : f32[4]
  %4 = add(%3, 1.0) : f32[4]
  %5 = add(%c, 1.0) : f32[4]
  return %3 <update 0>, %4, %5
}

func @out_of_order(%a: f32[4] @0, %b: f32[4] @1, %c: f32[4] @0, %d: f32[4] @1) {
  %4 = add(%b, 1.0) : f32[4] @2
  %5 = add(%a, %c) : f32[4]
  %6 = unsqueeze(%4, 0) : f32[1,4] @2
  %7 = add(%5, %6) : f32[1,4]
  return %4 <update 1>, %7
}

func @everything(%a: f32[2,2] @0, %b: f32[2,2], %c: f32[2,2] @0) {
  %3 = mul(%c, 2.0) : f32[2,2]
  %4 = add(%3, %3) : f32[2,2]
  return %3 <update 2>, %4 <base>
}

func @blocks(%a: f32[2,4] @0, %b: f32[2,4]+8 @0) {
  %2 = mul(%a, 3.0) : f32[2,4]
  %3 = mul(%b, 2.0) : f32[2,4]
  %4 = clone(%2, true) : f32[2,4] @1
  %5 = clone(%3, true) : f32[2,4] @2
  %6 = view(%4, [-1]) : f32[8] @1
  %7 = view(%5, [-1]) : f32[8] @2
  %8 = add(%6, %7) : f32[8]
  return %2 <update 0>, %3 <update 1>, %8
}

func @squares(%a: f32[4,4]{9,1} @0, %b: f32[4,4]{9,1}+22 @0) {
  %2 = mul(%a, 3.0) : f32[4,4]
  %3 = mul(%b, 2.0) : f32[4,4]
  %4 = clone(%2, true) : f32[4,4] @1
  %5 = clone(%3, true) : f32[4,4] @2
  %6 = view(%4, [-1]) : f32[16] @1
  %7 = view(%5, [-1]) : f32[16] @2
  %8 = add(%6, %7) : f32[16]
  return %2 <update 0>, %3 <update 1>, %8
}

func @squares_overlap(%a: f32[4,4]{9,1} @0, %b: f32[4,4]{9,1}+24 @0) {
  %2 = mul(%a, 3.0) : f32[4,4]
  %3 = as_strided(%a, [55], [1], 0) : f32[55] @0
  %4 = as_strided_scatter(%3, %2, [4,4], [9,1], 0) : f32[55] @1
  %5 = as_strided(%4, [4,4], [9,1], 0) : f32[4,4]{9,1} @1
  %6 = as_strided(%4, [4,4], [9,1], 24) : f32[4,4]{9,1}+24 @1
  %7 = mul(%6, 2.0) : f32[4,4]
  %8 = as_strided_scatter(%4, %7, [4,4], [9,1], 24) : f32[55] @2
  %9 = as_strided(%8, [4,4], [9,1], 24) : f32[4,4]{9,1}+24 @2
  %10 = as_strided(%8, [4,4], [9,1], 0) : f32[4,4]{9,1} @2
  %11 = clone(%10, true) : f32[4,4] @3
  %12 = clone(%9, true) : f32[4,4] @4
  %13 = view(%11, [-1]) : f32[16] @3
  %14 = view(%12, [-1]) : f32[16] @4
  %15 = add(%13, %14) : f32[16]
  return %5 <update 0>, %9 <update 1>, %15
}

func @unwritten(%a: f32[4] @0, %b: f32[4]+2 @0) {
  %2 = add(%a, %b) : f32[4]
  return %2
}

func @view(%a: f32[4,3]) {
  return
}

func @write_two(%a: f32[4], %b: f32[4], %c: f32[4]) {
  %3 = mul(%a, 2.0) : f32[4]
  %4 = mul(%c, 3.0) : f32[4]
  return %3 <update 0>, %4 <update 2>
}

func @write_and_view(%a: f32[3,3]) {
  %1 = add(%a, 1.0) : f32[3,3]
  return %1 <update 0>
}

func @own_inputs(%a: f32[4] @0, %b: f32[2] @0) {
  return
}

func @single(%a: f32[3,3]) {
  %1 = mul(%a, 3.0) : f32[3,3]
  return %1 <base>
}

func @mixed(%a: f32[3,3]) {
  %1 = mul(%a, 3.0) : f32[3,3]
  %2 = mul(%a, 4.0) : f32[3,3]
  return %1 <base>, %2 <base>
}

func @grouped(%x: f32[3,2]) {
  %1 = sin(%x) : f32[3,2]
  return %1
}
