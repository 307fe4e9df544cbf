# 10_grad_mode.td -- which outputs require grad: the tenth group of tests/README.md.

func @cosines(%a: f32[3,3], %b: f32[3,3]) {
  %x = cos(%a)
  %y = cos(%b)
  %z = mul(%a, %b)
  return %x, %y, %z
}
case "test_no_grad_input_output RG RG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  %b = randn([3,3], seed=2, requires_grad=true)
  call @cosines(%a, %b)
  backward seed=3
}
case "test_no_grad_input_output RG NRG" {
  %a = randn([3,3], seed=1, requires_grad=true)
  %b = randn([3,3], seed=2)
  call @cosines(%a, %b)
  backward seed=3
}
case "test_no_grad_input_output NRG RG" {
  %a = randn([3,3], seed=1)
  %b = randn([3,3], seed=2, requires_grad=true)
  call @cosines(%a, %b)
  backward seed=3
}
case "test_no_grad_input_output NRG NRG" {
  %a = randn([3,3], seed=1)
  %b = randn([3,3], seed=2)
  call @cosines(%a, %b)
}

func @detached_sum(%a: f32[4], %b: f32[4]) {
  %s = add(%a, 1.0)
  %d = detach(%s)
  return %d, %b
}
case "test_some_outputs_dont_require_grad_non_view NL" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([4], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  call @detached_sum(%a, %b)
  backward seed=3
}

func @twice(%x: f32[4]) {
  %y = mul(%x, 2.0)
  return %y
}
case "test_grad_context off, then on" {
  %x = randn([4], seed=1, requires_grad=true)
  no_grad {
    call @twice(%x)
  }
  call @twice(%x)
  backward seed=3
}

func @linear(%x: f32[4,3], %w: f32[2,3], %b: f32[2]) {
  %y = linear(%x, %w, %b)
  return %y
}
case "test_inference_mode" {
  %x = randn([4,3], seed=1)
  %w = randn([2,3], seed=2, requires_grad=true)
  %b = randn([2], seed=3, requires_grad=true)
  inference {
    call @linear(%x, %w, %b)
  }
}

func @off_and_on(%x: f32[4]) {
  %s = sin(%x)
  enable_grad {
    %c = cos(%x)
  }
  return %s, %c
}
case "test_aot_dispatch_output_requires_grad_in_no_grad RG" {
  %x = randn([4], seed=1, requires_grad=true)
  no_grad {
    call @off_and_on(%x)
  }
  backward seed=3
}
case "test_aot_dispatch_output_requires_grad_in_no_grad NRG" {
  %x = randn([4], seed=1)
  no_grad {
    call @off_and_on(%x)
  }
}

func @view_and_sine(%x: f32[2,2]) {
  %v = view(%x, [-1])
  %s = sin(%x)
  return %v, %s
}
case "test_aot_dispatch_output_requires_grad_in_no_grad_views NL" {
  %x0 = randn([2,2], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  no_grad {
    call @view_and_sine(%x)
  }
}

func @sum_of_two(%x: f32[4], %y: f32[4]) {
  %s = add(%x, %y)
  return %s
}
case "test_requires_grad_fake_via_dynamo_recompiles y RG, then not" {
  %x = randn([4], seed=1)
  %y = randn([4], seed=2, requires_grad=true)
  call @sum_of_two(%x, %y)
  %z = randn([4], seed=3)
  call @sum_of_two(%x, %z)
}
