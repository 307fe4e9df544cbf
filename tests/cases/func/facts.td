# facts.td -- more programs whose facts are pinned down, by tests/unit/func_facts.c;
# most are in ../sem. The inputs are not leaves unless the name says so.

func @write(%a: f32[3]) {
  mul_(%a, 2.0)
  %y = mul(%a, 3.0)
  return %y
}
case "data write" {
  %b = randn([3], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @write(%a)
}
case "data write, no gradients" {
  %a = randn([3], seed=1)
  call @write(%a)
}

func @all_no_grad(%a: f32[3]) {
  no_grad {
    mul_(%a, 2.0)
    %y = add(%a, 1.0)
  }
  return %y
}
case "all under no_grad" {
  %b = randn([3], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @all_no_grad(%a)
}

func @mixed_grad_modes(%a: f32[3]) {
  %d = detach(%a)
  mul_(%d, 2.0)
  mul_(%a, 3.0)
  no_grad {
    mul_(%a, 4.0)
  }
  %y = add(%a, 5.0)
  return %y
}
case "some writes under no_grad" {
  %b = randn([3], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @mixed_grad_modes(%a)
}

func @metadata(%a: f32[4,3], %b: f32[3,4]) {
  transpose_(%a, 1, 0)
  %y = add(%a, %b)
  return %y
}
case "metadata write" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b = randn([3,4], seed=2)
  call @metadata(%a, %b)
}

func @view_of_input(%a: f32[4,3]) {
  %v = view(%a, [-1])
  return %v
}
case "view of an input" {
  %b = randn([4,3], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @view_of_input(%a)
}

func @values(%a: f32[3]) {
  %y = add(%a, 1.0)
  return 3, none, %y
}
case "numbers and absent values" {
  %a = randn([3], seed=1)
  call @values(%a)
}

func @draws(%a: f32[3]) {
  %d = dropout(%a, 0.5, true)
  return %d
}
case "random numbers" {
  %a = randn([3], seed=1, requires_grad=true)
  call @draws(%a)
}

func @channels(%x: f32[2,3,4,4]{48,1,12,3}) {
  %y = mul(%x, 2.0)
  return %y
}
case "channels last" {
  %b = randn([2,4,4,3], seed=1, requires_grad=true)
  %x = permute(%b, [0,3,1,2])
  call @channels(%x)
}

func @write_view_of_intermediate(%a: f32[4,3]) {
  %o = mul(%a, 3.0)
  %v = select(%o, 0, 0)
  mul_(%v, 2.0)
  return %v, %o
}
case "a written view of an intermediate" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @write_view_of_intermediate(%a)
}

func @view_of_view(%a: f32[4,3]) {
  %o = mul(%a, 3.0)
  %v = t(%o)
  %w = select(%v, 0, 0)
  return %v, %w
}
case "a view and a view of it" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @view_of_view(%a)
}

func @written_view_returned(%a: f32[4,3]) {
  %v = select(%a, 0, 0)
  mul_(%v, 2.0)
  %t = t(%a)
  return %v, %t
}
case "a written view of an input" {
  %b = randn([4,3], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @written_view_returned(%a)
}

func @metadata_of_intermediate(%a: f32[4,3]) {
  %o = mul(%a, 3.0)
  t_(%o)
  return %o
}
case "metadata of an intermediate" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @metadata_of_intermediate(%a)
}

func @chunks(%a: f32[4,3]) {
  %o = mul(%a, 3.0)
  %p... = chunk(%o, 2)
  %t = t(%p.0)
  return %t, %p.1
}
case "views of multi-output views" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @chunks(%a)
}
