# 31_wrappers.td -- what surrounds the compiled halves: the group 31 of
# tests/README.md. What a plan leaves out is in golden `aot/rows_wrappers.td`.

func @twice_and_view(%x: f32[2,3]) {
  %a = mul(%x, 2.0)
  %v = view(%x, [6])
  return %a, %v
}
case "test_backward_prologue_tangent_filtering" {
  %x = randn([2,3], seed=1, requires_grad=true)
  call @twice_and_view(%x)
  backward seed=3
}
case "test_backward_prologue_correctness_with_alias only the alias" {
  %x = randn([2,3], seed=1, requires_grad=true)
  call @twice_and_view(%x)
  backward %out.1 seed=3
}

func @three(%x: f32[3], %y: f32[3]) {
  %a = mul(%x, %y)
  %b = sin(%x)
  %c = add(%y, 1.0)
  return %a, %b, %c
}
case "test_backward_prologue_correctness_multi_output all" {
  %x = randn([3], seed=1, requires_grad=true)
  %y = randn([3], seed=2, requires_grad=true)
  call @three(%x, %y)
  backward seed=3
}
case "test_backward_prologue_correctness_multi_output one by one" {
  %x = randn([3], seed=1, requires_grad=true)
  %y = randn([3], seed=2, requires_grad=true)
  call @three(%x, %y)
  backward %out.1 seed=3 retain_graph=true
  backward %out.2 seed=4 retain_graph=true
  backward %out.0, %out.2 seed=5
}

func @write_beside(%x: f32[3], %w: f32[3]) {
  no_grad {
    mul_(%x, 2.0)
  }
  %y = mul(%w, %w)
  return %y
}
case "test_backward_prologue_correctness_with_mutation leaf" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @write_beside(%x, %w)
  backward seed=3
}
func @write_used(%x: f32[3], %w: f32[3]) {
  mul_(%x, %w)
  %y = mul(%x, 3.0)
  return %y
}
case "test_backward_prologue_correctness_with_mutation NL" {
  %x0 = randn([3], seed=1, requires_grad=true)
  %x = mul(%x0, 1.0)
  %w = randn([3], seed=2, requires_grad=true)
  call @write_used(%x, %w)
  backward seed=3
}

func @one(%x: f32[3]) {
  %y = exp(%x)
  return %y
}
case "test_compiled_forward_correctness" {
  %x = randn([3], seed=1, requires_grad=true)
  call @one(%x)
  backward seed=3
}
case "test_compiled_forward_no_codegen_for_inference" {
  %x = randn([3], seed=1)
  call @one(%x)
}

func @kinds(%x: f32[2,3]) {
  %a = mul(%x, 2.0)
  %t = transpose(%a, 0, 1)
  %v = select(%x, 0, 1)
  %d = detach(%a)
  return %a, %t, %v, %x, %d
}
case "test_codegen_source_contains_gen_alias" {
  %x0 = randn([2,3], seed=1, requires_grad=true)
  %x = mul(%x0, 1.0)
  call @kinds(%x)
  backward seed=3
}
