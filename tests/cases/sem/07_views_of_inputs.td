# 07_views_of_inputs.td -- outputs that are inputs or lie in them: the seventh group
# of tests/README.md.

func @view(%a: f32[4,3]) {
  %v = view(%a, [-1])
  return %v
}
case "test_input_output_view_simple NL" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @view(%a)
  backward seed=3
}
case "test_input_output_view_simple RG" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @view(%a)
  backward seed=3
}
case "test_input_output_view_simple NRG" {
  %a = randn([4,3], seed=1)
  call @view(%a)
}

func @write_two(%a: f32[4], %b: f32[4], %c: f32[4]) {
  mul_(%a, 2.0)
  mul_(%c, 3.0)
  %x = view(%b, [2,2])
  %y = view(%c, [2,2])
  return %x, %y
}
case "test_input_output_view_mutate_multiple NL" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([4], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  %c0 = randn([4], seed=3, requires_grad=true)
  %c = add(%c0, 1.0)
  call @write_two(%a, %b, %c)
  backward seed=3
}
case "test_input_output_view_mutate_multiple NRG" {
  %a = randn([4], seed=1)
  %b = randn([4], seed=2)
  %c = randn([4], seed=3)
  call @write_two(%a, %b, %c)
}

func @write_and_view(%a: f32[3,3]) {
  add_(%a, 1.0)
  %v = view(%a, [-1])
  return %v
}
case "test_input_mutation_and_output_view NL" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @write_and_view(%a)
  backward seed=3
}
case "test_input_mutation_and_output_view NRG" {
  %a = randn([3,3], seed=1)
  call @write_and_view(%a)
}

func @view_detach(%a: f32[3,3]) {
  %t = detach(%a)
  mul_(%a, 2.0)
  return %a, %t
}
case "test_view_detach NL" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @view_detach(%a)
  backward seed=3
}
case "test_view_detach NRG" {
  %a = randn([3,3], seed=1)
  call @view_detach(%a)
}

func @own_inputs(%a: f32[4] @0, %b: f32[2] @0) {
  %x = view(%a, [4])
  %y = view(%b, [2])
  return %x, %y
}
case "test_output_aliases_multiple_inputs_get_correct_one NL" {
  %x0 = randn([2,2], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %a = view(%x, [-1])
  %b = select(%x, 0, 0)
  call @own_inputs(%a, %b)
  backward seed=3
}
case "test_output_aliases_multiple_inputs_get_correct_one NRG" {
  %x = randn([2,2], seed=1)
  %a = view(%x, [-1])
  %b = select(%x, 0, 0)
  call @own_inputs(%a, %b)
}

func @detach_and_input(%a: f32[4], %b: f32[4]) {
  %d = detach(%a)
  return %d, %b
}
case "test_some_outputs_dont_require_grad_view RG" {
  %a = randn([4], seed=1, requires_grad=true)
  %b = randn([4], seed=2, requires_grad=true)
  call @detach_and_input(%a, %b)
  backward seed=3
}

func @sized_and_flat(%a: f32[s0,3]) {
  %x = view(%a, [3,s0])
  %y = view(%a, [-1])
  return %x, %y
}
case "test_dynamic_output_aliases_input_view_meta_replay NL" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @sized_and_flat(%a)
  backward seed=3
}

func @itself(%x: f32[4]) {
  mul_(%x, 2.0)
  return %x
}
func @product_and_view(%x: f32[2,2]) {
  %p = mul(%x, 2.0)
  %v = view(%x, [-1])
  return %p, %v
}
func @two_views(%x: f32[2,2]) {
  %v = view(%x, [-1])
  %w = t(%x)
  return %v, %w
}
case "codegen: test_output_is_input NL" {
  %x0 = randn([4], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @itself(%x)
  backward seed=3
}
case "codegen: test_output_is_input NRG" {
  %x = randn([4], seed=1)
  call @itself(%x)
}
case "codegen: test_mixed_alias_and_non_alias_outputs NL" {
  %x0 = randn([2,2], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @product_and_view(%x)
  backward seed=3
}
case "codegen: test_mixed_alias_and_non_alias_outputs NRG" {
  %x = randn([2,2], seed=1)
  call @product_and_view(%x)
}
case "codegen: test_multiple_views_of_same_input NL" {
  %x0 = randn([2,2], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @two_views(%x)
  backward seed=3
}
case "codegen: test_multiple_views_of_same_input NRG" {
  %x = randn([2,2], seed=1)
  call @two_views(%x)
}

func @mixed_requires_grad(%x: f32[2,2], %y: f32[2,2]) {
  %v = view(%x, [-1])
  %w = view(%y, [-1])
  %p = mul(%x, %y)
  return %v, %w, %p
}
case "codegen: test_training_path_mixed_requires_grad" {
  %x0 = randn([2,2], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %y = randn([2,2], seed=2)
  call @mixed_requires_grad(%x, %y)
  backward seed=3
}

func @relu_and_view(%x: f32[s0,s1,3], %w: f32[2,3], %b: f32[2]) {
  %h = linear(%x, %w, %b)
  %y = relu(%h)
  %v = view(%x, [s0*s1,3])
  return %y, %v
}
case "test_output_views_input_dynamic" {
  %w = randn([2,3], seed=1, requires_grad=true)
  %b = randn([2], seed=2, requires_grad=true)
  %x0 = randn([2,4,3], seed=3, requires_grad=true)
  %x = add(%x0, 1.0)
  call @relu_and_view(%x, %w, %b)
  backward seed=3
}
case "test_output_views_input_dynamic other sizes" {
  %w = randn([2,3], seed=1, requires_grad=true)
  %b = randn([2], seed=2, requires_grad=true)
  %x0 = randn([3,5,3], seed=3, requires_grad=true)
  %x = add(%x0, 1.0)
  call @relu_and_view(%x, %w, %b)
  backward seed=3
}
