# Custom functions as a capture writes them down.

func @scaled(%x: f32[3] grad, %w: f32[3] grad) {
  %h = mul(%x, 2.0)
  %y, %s = custom("wave", func @forward(%a: f32[3], %b: f32[3]) {
    %s = sin(%b)
    %m = mul(%a, %s)
    return %m, %b <saved 0>, %s <saved 1>
  }, func @backward(%b: f32[3] <saved 0>, %s: f32[3] <saved 1>, %g: f32[3] <tangent 0>) {
    %ga = mul(%g, %s)
    %c = cos(%b)
    %gb = mul(%g, %c)
    return %ga <grad 0>, %gb <grad 1>
  }, [%h, %w], [])
  %z = mul(%y, %x)
  return %z
}

case "its own backward" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @scaled(%x, %w)
  backward seed=3
}

case "nothing to differentiate" {
  %x = randn([3], seed=1)
  %w = randn([3], seed=2)
  call @scaled(%x, %w)
}

# test_input_output_aliase_custom_autograd_function
func @same(%x: f32[3] grad) {
  %y = custom("same", func @forward(%a: f32[3]) {
    return %a
  }, func @backward(%g: f32[3] <tangent 0>) {
    %h = mul(%g, 0.5)
    return %h <grad 0>
  }, [%x], [])
  %z = mul(%y, %x)
  return %z
}

case "the input itself" {
  %x = randn([3], seed=1, requires_grad=true)
  call @same(%x)
  backward seed=2
}

# A forward that writes its input.
func @dirty(%x: f32[3] grad, %w: f32[3]) {
  %h = mul(%x, 3.0)
  %y = custom("half", func @forward(%a: f32[3]) {
    mul_(%a, 0.5)
    return %a
  }, func @backward(%g: f32[3] <tangent 0>) {
    %k = mul(%g, 0.5)
    return %k <grad 0>
  }, [%h], [], dirty=[0])
  %z = mul(%h, %w)
  return %y, %z
}

case "a written input" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2)
  call @dirty(%x, %w)
  backward seed=3
}

# Its backward views the gradient, whose layout is that of what the engine makes.
func @viewed(%x: f32[3,4] grad) {
  %y = custom("flat", func @forward(%a: f32[3,4]) {
    %m = mul(%a, 2.0)
    return %m
  }, func @backward(%g: f32[3,4] <tangent 0>) {
    %f = view(%g, [12])
    %k = mul(%f, 2.0)
    %r = view(%k, [3,4])
    return %r <grad 0>
  }, [%x], [])
  %z = transpose(%y, 0, 1)
  return %z
}
case "a result that is permuted later" {
  %x = randn([3,4], seed=1, requires_grad=true)
  call @viewed(%x)
  backward
}
func @viewed_and_used(%x: f32[3,4] grad) {
  %y = custom("flat", func @forward(%a: f32[3,4]) {
    %m = mul(%a, 2.0)
    return %m
  }, func @backward(%g: f32[3,4] <tangent 0>) {
    %f = view(%g, [12])
    %k = mul(%f, 2.0)
    %r = view(%k, [3,4])
    return %r <grad 0>
  }, [%x], [])
  %z = transpose(%y, 0, 1)
  %w = exp(%z)
  return %w
}
case "a result that is permuted and used later" {
  %x = randn([3,4], seed=1, requires_grad=true)
  call @viewed_and_used(%x)
  backward
}

# test_fw_bw_mutation_no_functionalization1 and 2: forward writes its second argument
# and a value of its own, backward writes that value, too.
func @writes_both_ways(%x: f32[3], %b: f32[3]) {
  %y, %bb = custom("both", func @forward(%a: f32[3], %b: f32[3]) {
    mul_(%b, 2.0)
    %t = add(%b, 1.0)
    mul_(%t, 3.0)
    %r = add(%a, %t)
    return %r, %b, %t <saved 0>
  }, func @backward(%t: f32[3] <saved 0>, %g: f32[3] <tangent 0>) {
    mul_(%t, 4.0)
    %d = mul(%g, %t)
    return %d <grad 0>
  }, [%x, %b], [], dirty=[1])
  %s = sin_(%y)
  %c = clone(%s)
  return %c
}
case "forward writes an argument, backward a saved value" {
  %x = randn([3], seed=1, requires_grad=true)
  %b = randn([3], seed=2)
  call @writes_both_ways(%x, %b)
  backward seed=3
}
