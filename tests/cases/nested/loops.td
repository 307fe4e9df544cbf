# Gradients of gradients through loops, and random numbers in branches and loops through
# which gradients pass.

func @powers(%x: f32[3], %w: f32[3]) {
  %zero = full([], 0, i64)
  %n, %y, %s = while_loop(func @test(%n: i64[], %y: f32[3], %s: f32[3], %k: f32[3]) {
    %t = lt(%n, 3)
    return %t
  }, func @body(%n: i64[], %y: f32[3], %s: f32[3], %k: f32[3]) {
    %m = add(%n, 1)
    %p = mul(%y, %k)
    %z = sin(%p)
    %q = mul(%z, %y)
    %r = add(%s, %q)
    return %m, %z, %r
  }, [%zero, %x, %w], [%w])
  return %y, %s
}

case "second gradients, as an op" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @powers(%x, %w)
  backward create_graph=true
  %g = grad %x
  %h = grad %w
  backward %g, %h
}

case "second gradients" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @powers(%x, %w) control=true
  backward create_graph=true
  %g = grad %x
  %h = grad %w
  backward %g, %h
}

case "second gradients with respect to the state alone" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2)
  call @powers(%x, %w) control=true
  backward %out.0 create_graph=true
  %g = grad %x
  backward %g
}

case "second gradients of one result" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @powers(%x, %w) control=true
  backward %out.1 create_graph=true
  %h = grad %w
  backward %h
}

# The number of iterations depends on values.
func @until(%x: f32[3], %w: f32[3]) {
  %zero = full([], 0, i64)
  %n, %y = while_loop(func @test(%n: i64[], %y: f32[3], %k: f32[3]) {
    %s = sum(%y)
    %t = lt(%s, 9.0)
    return %t
  }, func @body(%n: i64[], %y: f32[3], %k: f32[3]) {
    %m = add(%n, 1)
    %p = mul(%y, %y)
    %q = mul(%k, %y)
    %r = add(%p, %q)
    return %m, %r
  }, [%zero, %x], [%w])
  return %y
}

case "second gradients of one and of several iterations" {
  %b = tensor([2.0, 1.0, 1.5], f32, requires_grad=true)
  %c = tensor([1.0, 0.5, 0.75], f32, requires_grad=true)
  %w = tensor([1.0, 0.5, 1.5], f32, requires_grad=true)
  call @until(%b, %w) control=true
  backward create_graph=true
  %h = grad %b
  call @until(%c, %w) control=true
  backward create_graph=true
  %k = grad %c
  backward %h, %k
}

# Dropout in a branch: backward sees the numbers that forward drew, and the generator is
# where eager leaves it.
func @noisy(%x: f32[16], %w: f32[16], %p: bool[]) {
  %a = rand_like(%x)
  %y = cond(%p, func @yes(%c: f32[16], %d: f32[16]) {
    %k = rand_like(%c)
    %m = mul(%c, %k)
    %q = mul(%m, %d)
    %e = dropout(%q, 0.5, true)
    %f = sin(%e)
    return %f
  }, func @no(%c: f32[16], %d: f32[16]) {
    %m = mul(%c, %d)
    return %m
  }, [%x, %w])
  %b = rand_like(%x)
  %s = mul(%y, %a)
  %t = mul(%s, %b)
  return %t
}

case "a branch that draws" {
  %x = randn([16], seed=1, requires_grad=true)
  %w = randn([16], seed=2, requires_grad=true)
  %p = tensor([1], bool, [])
  call @noisy(%x, %w, %p) control=true
  backward seed=3
  call @noisy(%x, %w, %p) control=true
  backward seed=4
}

case "a branch that draws, and does not run" {
  %x = randn([16], seed=1, requires_grad=true)
  %w = randn([16], seed=2, requires_grad=true)
  %p = tensor([0], bool, [])
  call @noisy(%x, %w, %p) control=true
  backward seed=3
}

case "second gradients of a branch that draws" {
  %x = randn([16], seed=1, requires_grad=true)
  %w = randn([16], seed=2, requires_grad=true)
  %p = tensor([1], bool, [])
  call @noisy(%x, %w, %p) control=true
  backward create_graph=true
  %g = grad %x
  %h = grad %w
  backward %g, %h
}

func @noisy_loop(%x: f32[8], %w: f32[8]) {
  %zero = full([], 0, i64)
  %a = rand_like(%x)
  %n, %y = while_loop(func @test(%n: i64[], %y: f32[8], %k: f32[8]) {
    %t = lt(%n, 3)
    return %t
  }, func @body(%n: i64[], %y: f32[8], %k: f32[8]) {
    %m = add(%n, 1)
    %r = rand_like(%y)
    %p = mul(%y, %k)
    %q = mul(%p, %r)
    %z = sin(%q)
    return %m, %z
  }, [%zero, %x], [%w])
  %b = rand_like(%x)
  %s = mul(%y, %a)
  %t = mul(%s, %b)
  return %t
}

case "a loop that draws" {
  %x = randn([8], seed=1, requires_grad=true)
  %w = randn([8], seed=2, requires_grad=true)
  call @noisy_loop(%x, %w) control=true
  backward seed=3
  call @noisy_loop(%x, %w) control=true
  backward seed=4
}

case "second gradients of a loop that draws" {
  %x = randn([8], seed=1, requires_grad=true)
  %w = randn([8], seed=2, requires_grad=true)
  call @noisy_loop(%x, %w) control=true
  backward create_graph=true
  %g = grad %x
  %h = grad %w
  backward %g, %h
}
