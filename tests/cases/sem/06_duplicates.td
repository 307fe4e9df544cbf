# 06_duplicates.td -- one tensor given twice: the sixth group of tests/README.md.

func @sum_of_two(%x: f32[3,3], %y: f32[3,3]) {
  %s = add(%x, %y)
  return %s
}
case "test_dupe_arg RG" {
  %x = randn([3,3], seed=1, requires_grad=true)
  call @sum_of_two(%x, %x)
  backward seed=3
}
case "test_dupe_arg NL" {
  %x0 = randn([3,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @sum_of_two(%x, %x)
  backward seed=3
}

func @torture(%x: f32[3,3], %y: f32[3,3]) {
  t_(%x)
  unsqueeze_(%y, 0)
  %s = add(%x, %y)
  return %s
}
case "test_dupe_arg_torture NL" {
  %x0 = randn([3,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @torture(%x, %x)
  backward seed=3
}
case "test_dupe_arg_torture NRG" {
  %x = randn([3,3], seed=1)
  call @torture(%x, %x)
}

func @returned(%a: f32[2,2], %b: f32[2,2], %c: f32[2,2]) {
  %r = select(%a, 0, 0)
  add_(%r, 1.0)
  return %c
}
case "test_dupe_arg_returned_as_output NL" {
  %a0 = randn([2,2], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b0 = randn([2,2], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  call @returned(%a, %b, %a)
  backward seed=3
}
case "test_dupe_arg_returned_as_output NRG" {
  %a = randn([2,2], seed=1)
  %b = randn([2,2], seed=2)
  call @returned(%a, %b, %a)
}

func @left(%x: f32[3,3], %y: f32[3,3]) {
  t_(%x)
  %s = add(%x, %y)
  return %s
}
case "test_invalid_dupe_left_bias one tensor NL" {
  %x0 = randn([3,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @left(%x, %x)
  backward seed=3
}
case "test_invalid_dupe_left_bias two tensors NL" {
  %x0 = randn([3,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %y0 = randn([3,3], seed=2, requires_grad=true)
  %y = add(%y0, 1.0)
  call @left(%x, %y)
  backward seed=3
}

func @both(%x: f32[3,3], %y: f32[3,3]) {
  unsqueeze_(%x, 0)
  unsqueeze_(%y, 0)
  %s = add(%x, %y)
  return %s
}
case "test_invalid_dupe one tensor NL" {
  %x0 = randn([3,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @both(%x, %x)
  backward seed=3
}
case "test_invalid_dupe two tensors NL" {
  %x0 = randn([3,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %y0 = randn([3,3], seed=2, requires_grad=true)
  %y = add(%y0, 1.0)
  call @both(%x, %y)
  backward seed=3
}

func @truncate(%x: f32[4], %y: f32[4]) {
  trunc_(%x)
  trunc_(%y)
  %s = add(%x, %y)
  return %s
}
case "test_arg_dupe_via_dynamo_recompiles one tensor NL" {
  %x0 = randn([4], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  call @truncate(%x, %x)
  backward seed=3
}
case "test_arg_dupe_via_dynamo_recompiles two tensors NL" {
  %x0 = randn([4], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %y0 = randn([4], seed=2, requires_grad=true)
  %y = add(%y0, 1.0)
  call @truncate(%x, %y)
  backward seed=3
}
