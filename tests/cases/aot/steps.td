# steps.td -- training steps: parameters and state written by gradients computed inside,
# and gradients that inputs keep (<own_grad>), read, added to, left and taken away.

# A linear layer, one step of SGD with momentum; the gradient is formulas.
func @sgd(%w: f32[3,2] grad, %m: f32[3,2], %x: f32[4,3], %y: f32[4,2], %lr: f32[]) {
  %p = matmul(%x, %w)
  %d = sub(%p, %y)
  %s = mul(%d, %d)
  %l = mean(%s)
  no_grad {
    %g0 = mul(%d, 0.25)
    %t = transpose(%x, 0, 1)
    %g = matmul(%t, %g0)
    mul_(%m, 0.9)
    add_(%m, %g)
    %u = mul(%m, %lr)
    sub_(%w, %u)
  }
  %v = detach(%l)
  return %v
}
case "two steps" {
  %w = randn([3,2], seed=1, requires_grad=true)
  %m = zeros([3,2])
  %x = randn([4,3], seed=2)
  %y = randn([4,2], seed=3)
  %lr = tensor([0.1], f32, [])
  call @sgd(%w, %m, %x, %y, %lr)
  call @sgd(%w, %m, %x, %y, %lr)
}

# What td_backward does where there is no gradient yet.
func @first(%w: f32[3] grad, %x: f32[3]) {
  no_grad {
    %g = mul(%x, 2.0)
  }
  return none, %g <own_grad 0>
}
# ...and where there is one.
func @more(%w: f32[3] grad, %x: f32[3], %w.grad: f32[3] <own_grad 0>) {
  no_grad {
    %g = mul(%x, 2.0)
    add_(%w.grad, %g)
  }
  return
}
# Clips the gradient in place, steps, and takes it away.
func @step(%w: f32[3] grad, %w.grad: f32[3] <own_grad 0>) {
  no_grad {
    %n = norm(%w.grad, 2.0)
    %r = reciprocal(%n)
    %c = clamp_max(%r, 1.0)
    mul_(%w.grad, %c)
    sub_(%w, %w.grad)
  }
  return %n, none <own_grad 0>
}
case "accumulation, then a step" {
  %w = randn([3], seed=1, requires_grad=true)
  %x = randn([3], seed=2)
  call @first(%w, %x)
  call @more(%w, %x)
  call @more(%w, %x)
  %n = call @step(%w)
  call @first(%w, %x)
}
case "a gradient of before goes on" {
  %w = randn([3], seed=1, requires_grad=true)
  %x = randn([3], seed=2)
  %y = mul(%w, %w)
  backward %y seed=5
  call @more(%w, %x)
  %n = call @step(%w)
}

# Gradients change hands: that of one is left in both, in one storage.
func @share(%a: f32[2,3] grad, %b: f32[3,2] grad, %a.grad: f32[2,3] <own_grad 0>) {
  no_grad {
    mul_(%a.grad, 3.0)
    %t = transpose(%a.grad, 0, 1)
  }
  return %t, %t <own_grad 1>
}
case "one gradient for two" {
  %a = randn([2,3], seed=1, requires_grad=true)
  %b = randn([3,2], seed=2, requires_grad=true)
  %y = mul(%a, %a)
  backward %y seed=5
  call @share(%a, %b)
  call @share(%a, %b)
}

# A gradient with a history of its own.
func @taped(%w: f32[3] grad, %x: f32[3]) {
  %a = mul(%w, %x)
  %g = mul(%a, %x)
  return %a, %g <own_grad 0>
}
case "the gradient is differentiated again" {
  %w = randn([3], seed=1, requires_grad=true)
  %x = randn([3], seed=2)
  call @taped(%w, %x)
  %g = grad %w
  backward %g seed=4
}

# Writes of one input read what another one was.
func @swap(%x: f32[2], %y: f32[2]) {
  %t = clone(%x)
  copy_(%x, %y)
  copy_(%y, %t)
  return %t
}
func @turned(%x: f32[2,2], %y: f32[2,2], %z: f32[2,2]) {
  %v = transpose(%x, 0, 1)
  %u = clone(%v)
  mul_(%x, 2.0)
  copy_(%y, %u)
  copy_(%z, %x)
  return
}
case "swapped" {
  %x = tensor([1, 2], f32)
  %y = tensor([3, 4], f32)
  call @swap(%x, %y)
  call @swap(%x, %x)
}
case "reshaped" {
  %x = tensor([[1, 2], [3, 4]], f32)
  %y = tensor([[5, 6], [7, 8]], f32)
  %z = zeros([2,2])
  call @turned(%x, %y, %z)
  %p = transpose(%x, 0, 1)
  call @turned(%p, %y, %z)
}
