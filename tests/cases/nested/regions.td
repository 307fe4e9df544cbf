# Regions in text: a nested function is defined at its first use and named at later ones.

func @stack(%x: f32[2,3], %w: f32[3,3], %v: f32[3,3], %b: f32[3]) {
  %h = region(func @block(%x: f32[2,3], %w: f32[3,3], %b: f32[3]) {
    %m = matmul(%x, %w)
    %s = add(%m, %b)
    %t = tanh(%s)
    %y = add(%x, %t)
    return %y
  }, [%x, %w, %b])
  %y = region(@block, [%h, %v, %b])
  %z = region(@block, [%y, %w, %b])
  return %z
}

case "blocks with other weights, one of them twice" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %w = randn([3,3], seed=2, requires_grad=true)
  %v = randn([3,3], seed=3, requires_grad=true)
  %b = randn([3], seed=4)
  call @stack(%x, %w, %v, %b)
  backward seed=5
}

case "without gradients" {
  %x = randn([2,3], seed=1)
  %w = randn([3,3], seed=2)
  %v = randn([3,3], seed=3)
  %b = randn([3], seed=4)
  call @stack(%x, %w, %v, %b)
}

# A region in a region; the inner one is called from both.
func @nested(%x: f32[4], %w: f32[4]) {
  %h = region(func @outer(%x: f32[4], %w: f32[4]) {
    %a = region(func @inner(%x: f32[4], %w: f32[4]) {
      %p = mul(%x, %w)
      %s = sin(%p)
      return %s
    }, [%x, %w])
    %c = region(@inner, [%a, %w])
    %d = add(%c, %x)
    return %d
  }, [%x, %w])
  %y = region(@inner, [%h, %w])
  %z = region(@outer, [%y, %x])
  return %z
}

case "regions in regions" {
  %x = randn([4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  call @nested(%x, %w)
  backward seed=3
}

# Dropout in a region draws what eager draws, in the order of the calls.
func @noisy(%x: f32[16], %w: f32[16]) {
  %h = region(func @drop(%x: f32[16], %w: f32[16]) {
    %p = mul(%x, %w)
    %d = dropout(%p, 0.5, true)
    %e = exp(%d)
    return %e
  }, [%x, %w])
  %r = rand([16])
  %m = mul(%h, %r)
  %y = region(@drop, [%m, %w])
  return %y
}

case "regions draw" {
  %x = randn([16], seed=1, requires_grad=true)
  %w = randn([16], seed=2, requires_grad=true)
  call @noisy(%x, %w)
  backward seed=3
}

# Two results, of which the program uses one or the other.
func @halves(%x: f32[3], %w: f32[3]) {
  %a, %b = region(func @two(%x: f32[3], %w: f32[3]) {
    %e = exp(%x)
    %p = mul(%e, %w)
    %q = mul(%e, %e)
    return %p, %q
  }, [%x, %w])
  %c, %d = region(@two, [%a, %w])
  %y = mul(%d, 2.0)
  return %y
}

case "a result without gradient" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @halves(%x, %w)
  backward seed=3
}

# A body that writes an operand or returns a view of one is inlined by td_call_region.
func @aliases(%x: f32[2,2]) {
  %m = mul(%x, 2.0)
  %v = region(func @view(%x: f32[2,2]) {
    %t = transpose(%x, 0, 1)
    return %t
  }, [%m])
  %w = region(func @write(%x: f32[2,2]) {
    mul_(%x, 3.0)
    %y = exp(%x)
    return %y
  }, [%v])
  %s = add(%m, %w)
  return %s, %v
}

case "writes and views" {
  %x = randn([2,2], seed=1, requires_grad=true)
  call @aliases(%x) control=true
  backward seed=3
}

# test_different_strides_in_backward: one use gets an expanded tangent, the other a
# dense one.
func @two_uses(%x: f32[2,3], %y: f32[2,3]) {
  %a = region(func @wave(%x: f32[2,3]) {
    %s = sin(%x)
    %c = mul(%s, %x)
    return %c
  }, [%x])
  %b = region(@wave, [%y])
  %s = sum(%a)
  %e = exp(%b)
  %t = transpose(%e, 0, 1)
  %u = clone(%t)
  return %s, %u
}
case "one use with an expanded tangent, one with a dense one" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %y = randn([2,3], seed=2, requires_grad=true)
  call @two_uses(%x, %y)
  backward seed=3
}

# test_ac and test_ac_rng: a checkpoint in each of two regions, with dropout.
func @checkpoints(%x: f32[8], %w: f32[8]) {
  %a = region(func @drops(%x: f32[8], %w: f32[8]) {
    %m = mul(%x, %w) : f32[8] prefer_recompute 1
    %d = dropout(%m, 0.5, true) : f32[8] prefer_recompute 1
    %e = exp(%d) : f32[8] prefer_recompute 1
    return %e
  }, [%x, %w])
  %b = region(func @waves(%x: f32[8], %w: f32[8]) {
    %s = sin(%x) : f32[8] prefer_recompute 1
    %m = mul(%s, %w) : f32[8] prefer_recompute 1
    %c = cos(%m) : f32[8] prefer_recompute 1
    return %c
  }, [%a, %w])
  %c = region(@drops, [%b, %w])
  return %c
}
case "checkpoints in regions" {
  %x = randn([8], seed=1, requires_grad=true)
  %w = randn([8], seed=2, requires_grad=true)
  call @checkpoints(%x, %w)
  backward seed=3
}

# test_autograd_function: a custom function in a region that is called twice.
func @customs(%x: f32[3], %w: f32[3]) {
  %a = region(func @own(%x: f32[3], %w: f32[3]) {
    %m = mul(%x, %w)
    %y = custom("half", func @forward(%a: f32[3]) {
      %s = sin(%a)
      return %s, %a <saved 0>
    }, func @backward(%a: f32[3] <saved 0>, %g: f32[3] <tangent 0>) {
      %c = cos(%a)
      %d = mul(%g, %c)
      %h = mul(%d, 0.5)
      return %h <grad 0>
    }, [%m], [])
    return %y
  }, [%x, %w])
  %b = region(@own, [%a, %x])
  return %b
}
case "a custom function in a region" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @customs(%x, %w)
  backward seed=3
}
