# facts.td -- programs whose facts tests/unit/func_facts.c pins down; the inputs are
# not leaves unless the name says so.

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

func @write_return(%a: f32[3]) {
  mul_(%a, 2.0)
  return %a
}
case "written input returned" {
  %b = randn([3], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @write_return(%a)
}

func @detach_write(%a: f32[3]) {
  %d = detach(%a)
  mul_(%d, 2.0)
  %y = add(%a, 3.0)
  return %y
}
case "write through a detached alias of a leaf" {
  %a = randn([3], seed=1, requires_grad=true)
  call @detach_write(%a)
}

func @no_grad_write(%a: f32[4,3]) {
  %v = view(%a, [-1])
  no_grad {
    mul_(%v, 2.0)
  }
  %y = add(%a, 1.0)
  return %y
}

case "write to a view under no_grad" {
  %b = randn([4,3], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @no_grad_write(%a)
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

func @becomes_differentiable(%x: f32[3], %y: f32[3]) {
  %r = add_(%x, %y)
  return %r
}
case "a write makes an input differentiable" {
  %x = randn([3], seed=1)
  %y = randn([3], seed=2, requires_grad=true)
  call @becomes_differentiable(%x, %y)
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

func @metadata_and_data(%a: f32[4,3]) {
  t_(%a)
  %r = select(%a, 0, 0)
  mul_(%r, 2.0)
  %v = view(%a, [3,4])
  return %v
}

case "data and metadata" {
  %b = randn([4,3], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @metadata_and_data(%a)
}

func @metadata_views(%a: f32[4,3], %b: f32[4,3], %c: f32[4,3]) {
  mul_(%b, 3.0)
  t_(%c)
  %x = view(%a, [3,4])
  %y = view(%b, [3,4])
  %z = t(%c)
  return %x, %y, %z
}
case "views of written, re-strided and plain inputs" {
  %a0 = randn([4,3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b = add(%a0, 2.0)
  %c = add(%a0, 3.0)
  call @metadata_views(%a, %b, %c)
}

func @cancelled(%a: f32[4,3]) {
  t_(%a)
  t_(%a)
  %y = add(%a, 1.0)
  return %y
}
case "metadata writes that cancel" {
  %a = randn([4,3], seed=1)
  call @cancelled(%a)
}

func @set_input(%a: f32[3], %b: f32[3]) {
  no_grad {
    set_(%a, %b)
  }
  mul_(%b, 2.0)
  %y = add(%a, %b)
  return %y
}
case "set_ to another input" {
  %a = randn([3], seed=1)
  %b = randn([3], seed=2)
  call @set_input(%a, %b)
}

func @set_back(%a: f32[3], %b: f32[3]) {
  %o = alias(%a)
  no_grad {
    set_(%a, %b)
    set_(%a, %o)
  }
  %y = add(%a, %b)
  return %y
}
case "set_ away and back" {
  %a = randn([3], seed=1)
  %b = randn([3], seed=2)
  call @set_back(%a, %b)
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

func @detached_and_written(%a: f32[3]) {
  %t = detach(%a)
  mul_(%a, 2.0)
  return %a, %t
}
case "a detached alias returned with the written input" {
  %b = randn([3], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @detached_and_written(%a)
}

func @own_inputs(%a: f32[12], %b: f32[3]) {
  %x = view(%a, [12])
  %y = view(%b, [3])
  return %x, %y
}
case "each view is of its own input" {
  %x0 = randn([4,3], seed=1, requires_grad=true)
  %x = add(%x0, 1.0)
  %a = view(%x, [-1])
  %b = select(%x, 0, 0)
  call @own_inputs(%a, %b)
}

func @one_view(%a: f32[4,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  return %v
}
case "the only view of an intermediate" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @one_view(%a)
}

func @two_views(%a: f32[4,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  %w = view(%o, [3,4])
  return %v, %w
}
case "two views of an intermediate" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @two_views(%a)
}
case "two views of an intermediate, no gradients" {
  %a = randn([4,3], seed=1)
  call @two_views(%a)
}

func @view_and_base(%a: f32[4,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  return %o, %v, %o
}
case "view and base returned" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @view_and_base(%a)
}

func @different_grad(%a: f32[4,3]) {
  %o = mul(%a, 3.0)
  %v = view(%o, [-1])
  %s = select(%o, 0, 0)
  %d = detach(%s)
  return %v, %o, %d
}
case "aliases with and without gradients" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @different_grad(%a)
}

func @mixed(%a: f32[4,3]) {
  %o1 = mul(%a, 3.0)
  %o2 = mul(%a, 4.0)
  %x = view(%o1, [-1])
  %y = t(%o2)
  %z = t(%o1)
  return %x, %y, %z
}
case "bases of two intermediates" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @mixed(%a)
}

func @detach_twin(%x: f32[4,3]) {
  %y = add(%x, 1.0)
  %a = t(%y)
  %d = detach(%a)
  return %d, %a
}
case "a detached twin" {
  %x = randn([4,3], seed=1, requires_grad=true)
  call @detach_twin(%x)
}

func @no_grad_view(%a: f32[4,3]) {
  %o = mul(%a, 3.0)
  no_grad {
    %v = view(%o, [-1])
  }
  %s = sum(%o)
  return %s, %v
}
case "a view made under no_grad" {
  %a = randn([4,3], seed=1, requires_grad=true)
  call @no_grad_view(%a)
}

func @unbound(%a: f32[3,2]) {
  %p... = unbind(%a, 0)
  return %p.0, %p.1, %p.2
}
case "multi-output views of an input" {
  %b = randn([3,2], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @unbound(%a)
}

func @unbound_and_view(%a: f32[3,2]) {
  %p... = unbind(%a, 0)
  %v = view(%a, [-1])
  return %p.0, %p.1, %v
}
case "multi-output views and a plain one of an input" {
  %b = randn([3,2], seed=1, requires_grad=true)
  %a = add(%b, 1.0)
  call @unbound_and_view(%a)
}

func @unbound_intermediate(%a: f32[3,2]) {
  %o = mul(%a, 3.0)
  %p... = unbind(%o, 0)
  return %p.0, %p.1, %o
}
case "multi-output views of an intermediate" {
  %a = randn([3,2], seed=1, requires_grad=true)
  call @unbound_intermediate(%a)
}

func @unbound_base_and_view(%a: f32[3,2]) {
  %o = mul(%a, 3.0)
  %p... = unbind(%o, 0)
  %v = view(%o, [-1])
  return %p.0, %o, %v
}
case "multi-output views, the base and a view of it" {
  %a = randn([3,2], seed=1, requires_grad=true)
  call @unbound_base_and_view(%a)
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

func @twice(%a: f32[4,3], %b: f32[4,3]) {
  t_(%a)
  unsqueeze_(%b, 0)
  %y = add(%a, %b)
  return %y
}
case "one tensor twice" {
  %x = randn([4,3], seed=1)
  call @twice(%x, %x)
}

func @norm(%x: f32[4,3], %m: f32[3], %v: f32[3]) {
  %y = batch_norm(%x, none, none, %m, %v, true, 0.1, 1e-5)
  return %y
}
case "running statistics" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %m = zeros([3])
  %v = ones([3])
  call @norm(%x, %m, %v)
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

func @detached_input(%a: f32[4,3], %b: f32[3]) {
  %d = detach(%a)
  return %d, %b
}
case "a detached input and an input" {
  %a = randn([4,3], seed=1, requires_grad=true)
  %b = randn([3], seed=2, requires_grad=true)
  call @detached_input(%a, %b)
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
