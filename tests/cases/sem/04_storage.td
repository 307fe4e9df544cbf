# 04_storage.td -- inputs that move to other bytes, or whose bytes grow: the fourth
# group of tests/README.md.

func @set_to_fresh(%a: f32[2,2]) {
  %r = arange(0.0, 4.0)
  %b = reshape(%r, [2,2])
  no_grad {
    set_(%a, %b)
  }
  %y = mul(%a, %b)
  return %y
}
case "test_input_mutation_set__input_mutation RG" {
  %a = randn([2,2], seed=1, requires_grad=true)
  call @set_to_fresh(%a)
  backward seed=3
}
case "test_input_mutation_set__input_mutation NRG" {
  %a = randn([2,2], seed=1)
  call @set_to_fresh(%a)
}

func @set_then_write_source(%a: f32[3], %b: f32[3]) {
  no_grad {
    set_(%a, %b)
  }
  mul_(%b, 2.0)
  %y = add(%a, %b)
  return %y
}
case "test_set__and_data_mutation_good NRG" {
  %a = randn([3], seed=1)
  %b = randn([3], seed=2)
  call @set_then_write_source(%a, %b)
}
case "test_set__and_data_mutation_good RG" {
  %a = randn([3], seed=1, requires_grad=true)
  %b0 = randn([3], seed=2, requires_grad=true)
  %b = add(%b0, 1.0)
  call @set_then_write_source(%a, %b)
  backward seed=3
}

# The old bytes are written after the tensor has left them.
func @write_old_view(%a: f32[4]) {
  %v = view(%a, [-1])
  %t = ones([4])
  no_grad {
    set_(%a, %t)
    mul_(%v, 2.0)
  }
  %y = add(%a, 1.0)
  return %y, %v
}
case "test_set__and_data_mutation_bad NRG" {
  %a = randn([4], seed=1)
  call @write_old_view(%a)
}

func @set_then_write(%a: f32[3], %b: f32[3]) {
  no_grad {
    set_(%a, %b)
  }
  mul_(%a, 2.0)
  %y = add(%a, %b)
  return %y
}
case "test_set__not_allowed NL" {
  %a0 = randn([3], seed=1, requires_grad=true)
  %a = add(%a0, 1.0)
  %b = randn([3], seed=2)
  call @set_then_write(%a, %b)
  backward seed=3
}
case "test_set__not_allowed NRG" {
  %a = randn([3], seed=1)
  %b = randn([3], seed=2)
  call @set_then_write(%a, %b)
}

func @set_and_back(%a: f32[3], %b: f32[3]) {
  %o = alias(%a)
  no_grad {
    set_(%a, %b)
    set_(%a, %o)
  }
  %y = add(%a, %b)
  return %y
}
case "test_input_mutation_set__nop RG" {
  %a = randn([3], seed=1, requires_grad=true)
  %b = randn([3], seed=2, requires_grad=true)
  call @set_and_back(%a, %b)
  backward seed=3
}
case "test_input_mutation_set__nop NRG" {
  %a = randn([3], seed=1)
  %b = randn([3], seed=2)
  call @set_and_back(%a, %b)
}

func @set_leaf(%x: f32[2]) {
  %o = ones([2])
  set_(%x, %o)
  return %x
}
case "test_aot_autograd_raises_invalid_leaf_set" {
  %x = randn([2], seed=1, requires_grad=true)
  call @set_leaf(%x)
}

func @grow_and_fill(%a: f32[0]) {
  resize_(%a, [8])
  %o = ones([8])
  no_grad {
    copy_(%a, %o)
  }
  %y = add(%a, 1.0)
  return %y
}
case "test_input_mutation_storage_resize_up" {
  %a = zeros([0])
  call @grow_and_fill(%a)
}

func @shrink_and_set(%a: f32[2]) {
  %o = ones([2])
  no_grad {
    resize_(%a, [0])
    set_(%a, %o)
  }
  return %a
}
case "test_input_mutation_storage_resize_before_set_ NRG" {
  %a = randn([2], seed=1)
  call @shrink_and_set(%a)
}

func @set_use_shrink(%a: f32[0], %d: f32[4]) {
  %g = mul(%d, 1.0)
  no_grad {
    set_(%a, %g)
  }
  %y = mul(%a, %a)
  no_grad {
    resize_(%a, [0])
  }
  return %y
}
case "test_input_mutation_storage_resize_down_and_set_ NRG" {
  %a = zeros([0])
  %d = randn([4], seed=1)
  call @set_use_shrink(%a, %d)
}

func @constant_resized(%x: f32[2]) {
  %buf = tensor([1, 2], f32)
  %y = add_(%buf, 3.0)
  resize_(%y, [1])
  %z = add(%x, %y)
  return %z
}
case "test_real_weights_in_symbolic_mode_with_inplace_ops" {
  %x = randn([2], seed=1)
  call @constant_resized(%x)
}

func @read_leaf(%x) {
  %w = mul(%x, 3.0)
  return %w
}
func @set_leaf_silently(%x, %z) {
  no_grad {
    set_(%x, %z)
  }
  return
}
case "a leaf that set_ gave other sizes takes gradients of these" {
  %x = tensor([1, 2, 3], f32, requires_grad=true)
  %z = tensor([4, 5], f32)
  %a = call @read_leaf(%x)
  call @set_leaf_silently(%x, %z)
  %b = call @read_leaf(%x)
  backward %b
}
case "one of the same sizes takes both" {
  %x = tensor([1, 2, 3], f32, requires_grad=true)
  %z = tensor([4, 5, 6], f32)
  %a = call @read_leaf(%x)
  call @set_leaf_silently(%x, %z)
  %b = call @read_leaf(%x)
  backward %a
  backward %b
}

func @set_leaf_itself(%x) {
  no_grad {
    set_(%x, %x, 1, [2])
  }
  return
}
case "the same of a part of its own storage" {
  %x = tensor([1, 2, 3], f32, requires_grad=true)
  %a = call @read_leaf(%x)
  call @set_leaf_itself(%x)
  %b = call @read_leaf(%x)
  backward %b
}
