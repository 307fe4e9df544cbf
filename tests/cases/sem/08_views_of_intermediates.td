# 08_views_of_intermediates.td -- outputs that lie in a value made inside: the eighth
# group of tests/README.md.

func @single(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  return %v
}
case "test_output_aliases_intermediate_single RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @single(%a)
  backward seed=3
}
case "test_output_aliases_intermediate_single NRG" {
  %a = randn([3,3], seed=1)
  call @single(%a)
}

# What comes out is written afterwards, as in the row.
func @linear_view(%x: f32[3,3]) {
  %o = add(%x, 1.0)
  %v = view(%o, [-1])
  return %v
}
case "test_output_aliases_intermediate_mutation_linear RG" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %v = call @linear_view(%x)
  mul_(%v, 2.0)
  backward %v
}

func @view_and_other(%a: f32[3,3], %b: f32[3,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  %y = add(%b, 1.0)
  return %v, %y
}
case "test_output_aliases_intermediate_no_grad" {
  %a = randn([3,3], seed=1)
  %b = randn([3,3], seed=2, requires_grad=true)
  call @view_and_other(%a, %b)
  backward seed=3
}

func @no_grad_view(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  no_grad {
    %v = view(%o, [-1])
  }
  %s = sum(%o)
  return %s, %v
}
case "test_output_aliases_intermediate_no_grad_view RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  %s, %v = call @no_grad_view(%a)
  backward %s
}

func @several_times(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  return %o, %v, %o
}
case "test_output_aliases_intermediate_returned_multiple_times RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @several_times(%a)
  backward seed=3
}
case "test_output_aliases_intermediate_returned_multiple_times NRG" {
  %a = randn([3,3], seed=1)
  call @several_times(%a)
}

func @two_views(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  %w = view(%o, [-1])
  return %v, %w
}
case "test_output_aliases_intermediate_multiple RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @two_views(%a)
  backward seed=3
}
case "test_output_aliases_intermediate_multiple NRG" {
  %a = randn([3,3], seed=1)
  call @two_views(%a)
}

func @different_grad(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  %s = select(%o, 0, 0)
  %d = detach(%s)
  return %v, %o, %d
}
case "test_output_aliases_intermediate_and_returned_different_grad RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @different_grad(%a)
  backward seed=3
}

func @turned_and_detached(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  t_(%o)
  detach_(%o)
  %y = add(%a, 1.0)
  return %o, %y
}
case "test_output_aliases_intermediate_inplace_view_with_detach RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @turned_and_detached(%a)
  backward seed=3
}

func @mixed(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %p = mul(%a, 4.0)
  %x = view(%o, [-1])
  %y = transpose(%p, 1, 0)
  %z = transpose(%o, 1, 0)
  return %x, %y, %z
}
case "test_output_aliases_intermediate_multiple_mixed RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @mixed(%a)
  backward seed=3
}

func @detached_twin(%x: f32[4,3]) {
  %y = add(%x, 1.0)
  %a = t(%y)
  %d = detach(%a)
  return %d, %a
}
case "test_alias_of_intermediate_detach RG" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @detached_twin(%x)
  backward seed=3
}

func @detached_twin_dynamic(%x: f32[s0,3]) {
  %y = add(%x, 1.0)
  %a = t(%y)
  %d = detach(%a)
  return %d, %a
}
case "test_alias_of_intermediate_detach dynamic RG" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @detached_twin_dynamic(%x)
  backward seed=3
}

func @views_of_clone(%a: f32[4]) {
  %b = clone(%a)
  %v = view(%b, [2,2])
  %w = view(%b, [-1])
  return %v, %w
}
case "test_output_aliases_intermediate_view_meta_replay RG" {
  %a = randn([4], seed=1, requires_grad=true)
  call @views_of_clone(%a)
  backward seed=3
}

func @base_and_view(%a: f32[4]) {
  %b = add(%a, 10.0)
  %v = view(%b, [2,2])
  return %b, %v
}
case "test_output_aliases_output_view_meta_replay RG" {
  %a = randn([4], seed=1, requires_grad=true)
  call @base_and_view(%a)
  backward seed=3
}
