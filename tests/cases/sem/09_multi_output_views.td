# 09_multi_output_views.td -- outputs of unbind and its kin: the ninth group of
# tests/README.md.

func @unbound(%a: f32[3,3]) {
  %p... = unbind(%a, 0)
  return %p.0, %p.1, %p.2
}
case "test_output_aliases_input_multi_output_view_should_raise_autograd_error" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %x, %y, %z = call @unbound(%a)
  mul_(%x, 2.0)
}
case "test_output_aliases_input_multi_output_view_should_raise_autograd_error, input written" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %x, %y, %z = call @unbound(%a)
  mul_(%a, 2.0)
  backward %x
}
case "test_output_aliases_input_multi_output_view_should_raise_autograd_error, detached alias written" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %x, %y, %z = call @unbound(%a)
  %d = detach(%a)
  mul_(%d, 2.0)
  backward %x
}
case "test_output_aliases_input_multi_output_view" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @unbound(%a)
  backward seed=3
}
case "test_output_aliases_input_multi_output_view NRG, written" {
  %a = randn([3,3], seed=1)
  %x, %y, %z = call @unbound(%a)
  mul_(%x, 2.0)
  call @unbound(%a)
}

func @unbound_and_view(%a: f32[3,3]) {
  %p... = unbind(%a, 0)
  %v = view(%a, [-1])
  return %p.0, %p.1, %p.2, %v
}
case "test_output_aliases_input_multi_output_view with a view" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  call @unbound_and_view(%a)
  backward seed=3
}
case "test_output_aliases_input_multi_output_view with a view, written" {
  %a0 = randn([3,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %x, %y, %z, %v = call @unbound_and_view(%a)
  mul_(%v, 10.0)
  backward %v retain_graph=true
  mul_(%a, 2.0)
  backward %v, %a
}

func @inner_unbound(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %p... = unbind(%o, 0)
  return %p.0, %p.1, %p.2
}
func @inner_unbound_base(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %p... = unbind(%o, 0)
  return %p.0, %p.1, %p.2, %o
}
func @inner_unbound_view(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %p... = unbind(%o, 0)
  %v = view(%o, [-1])
  return %p.0, %p.1, %p.2, %v
}
func @inner_unbound_both(%a: f32[3,3]) {
  %o = mul(%a, 3.0)
  %p... = unbind(%o, 0)
  %v = view(%o, [-1])
  return %p.0, %p.1, %p.2, %o, %v
}
case "test_output_aliases_intermediate_multi_output_view 1 alone" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @inner_unbound(%a)
  backward seed=3
}
case "test_output_aliases_intermediate_multi_output_view 2 with the base" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @inner_unbound_base(%a)
  backward seed=3
}
case "test_output_aliases_intermediate_multi_output_view 3 with a view" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @inner_unbound_view(%a)
  backward seed=3
}
case "test_output_aliases_intermediate_multi_output_view 4 with both" {
  %a = randn([3,3], seed=1, requires_grad=true)
  call @inner_unbound_both(%a)
  backward seed=3
}
case "test_output_aliases_intermediate_multi_output_view 4 with both, written" {
  %a = randn([3,3], seed=1, requires_grad=true)
  %x, %y, %z, %o, %v = call @inner_unbound_both(%a)
  mul_(%v, 10.0)
  backward %v, %o
}

func @grouped(%x: f32[3,2]) {
  %p... = unbind(%x, 0)
  %u = unsqueeze(%p.2, 0)
  %s = sin(%x)
  %v = unsqueeze(%p.0, 0)
  return %u, %s, %v
}
case "test_multi_output_views_of_input_are_grouped NL" {
  %x0 = randn([3,2], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @grouped(%x)
  backward seed=3
}

func @halves(%x: f32[4,3]) {
  %a, %b = split(%x, 2)
  %s = sin(%a)
  %c = cos(%b)
  %y = add(%s, %c)
  return %y
}
case "test_min_cut_partitioner_raise_getitems RG" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @halves(%x)
  backward seed=3
}
