# Gradient hooks that a function registers on values it has computed (docs/aot.md).

func @scaled(%x: f32[3], %w: f32[3]) {
  %h = mul(%x, %w)
  on_grad(%h, func @hook(%g: f32[3]) {
      %d = mul(%g, 2.0)
      return %d
    }, [])
  on_grad(%h, func @hook(%g: f32[3]) {
      %d = clamp(%g, -0.5, 0.5)
      return %d
    }, [])
  %y = exp(%h)
  return %y, %h
}

case "two hooks run in order, and see the sum of all gradients" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @scaled(%x, %w)
  backward seed=3 retain_graph=true
  backward seed=4
}

case "gradients of one result" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  %y, %h = call @scaled(%x, %w)
  backward %h retain_graph=true
  backward %y
}

case "without gradients no hook runs" {
  %x = randn([3], seed=1)
  %w = randn([3], seed=2)
  call @scaled(%x, %w)
}

case "gradients inside the function pass through the hooks" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @scaled(%x, %w) grads=true
  backward seed=3
}

case "a checkpointed call" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @scaled(%x, %w) checkpoint=true
  backward seed=3
}

# The hook reads the value it is on and one that is computed from it, as the function
# leaves them.
func @reads(%x: f32[3], %w: f32[3]) {
  %h = mul(%x, %w)
  %z = sin(%h)
  on_grad(%h, func @hook(%g: f32[3], %a: f32[3], %b: f32[3]) {
      %d = mul(%g, %a)
      %e = mul(%d, %b)
      return %e
    }, [%h, %z])
  add_(%z, 1.0)
  %y = exp(%z)
  %r = clone(%h)
  return %y, %r
}

case "a hook reads values that are written later" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @reads(%x, %w)
  backward seed=3
}

case "gradients of gradients pass through what a hook reads" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  %y, %h = call @reads(%x, %w)
  backward %y create_graph=true
  %g = grad %w
  backward %g
}

func @of_view(%x: f32[4], %w: f32[4]) {
  %h = mul(%x, %w)
  %v = narrow(%h, 0, 0, 2)
  %u = transpose(%v, 0, 0)
  on_grad(%v, func @hook(%g: f32[2]) {
      %d = mul(%g, %g)
      return %d
    }, [])
  %y = exp(%v)
  return %y, %v, %h, %u
}

case "a hook on a view that is returned sees its uses inside and outside" {
  %x = randn([4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  %y, %v, %h, %u = call @of_view(%x, %w)
  %s = sin(%v)
  %t = sin(%h)
  backward %y, %v, %h, %u, %s, %t seed=3
}

case "a gradient that arrives at such a view alone" {
  %x = randn([4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  %y, %v, %h, %u = call @of_view(%x, %w)
  backward %u
}

func @of_metadata(%x: f32[2,3]) {
  %h = sin(%x)
  t_(%h)
  on_grad(%h, func @hook(%g: f32[3,2]) {
      %d = mul(%g, %g)
      return %d
    }, [])
  %y = exp(%h)
  return %y, %h
}

case "a hook after a metadata write" {
  %x = randn([2,3], seed=1, requires_grad=true)
  call @of_metadata(%x)
  backward seed=3
}

func @writes(%x: f32[4], %w: f32[4]) {
  %h = mul(%x, %w)
  on_grad(%h, func @hook(%g: f32[4]) {
      mul_(%g, 3.0)
      return none
    }, [])
  %s = add(%h, %x)
  return %s
}

case "a hook writes its gradient, which another input gets too" {
  %x = randn([4], seed=1, requires_grad=true)
  %w = randn([4], seed=2, requires_grad=true)
  call @writes(%x, %w)
  backward seed=3
}

func @of_written(%x: f32[3]) {
  mul_(%x, 2.0)
  on_grad(%x, func @hook(%g: f32[3]) {
      %d = mul(%g, %g)
      return %d
    }, [])
  %h = sin(%x)
  mul_(%x, 3.0)
  return %h
}

case "a hook on an argument after the function has written it" {
  %x = randn([3], seed=1, requires_grad=true)
  %v = mul(%x, 1.0)
  call @of_written(%v)
  %s = sin(%v)
  backward %s seed=3
}

func @in_branch(%p: bool[], %x: f32[3]) {
  %y... = cond(%p, func @yes(%a: f32[3]) {
      %h = sin(%a)
      on_grad(%h, func @hook(%g: f32[3], %b: f32[3]) {
          %d = mul(%g, %b)
          return %d
        }, [%h])
      %z = exp(%h)
      return %z
    }, func @no(%a: f32[3]) {
      %h = cos(%a)
      return %h
    }, [%x])
  return %y.0
}

case "a hook in the branch that runs" {
  %x = randn([3], seed=1, requires_grad=true)
  %p = tensor(true, bool)
  call @in_branch(%p, %x)
  backward seed=3
}

case "a hook in the branch that does not run" {
  %x = randn([3], seed=1, requires_grad=true)
  %p = tensor(false, bool)
  call @in_branch(%p, %x)
  backward seed=3
}

func @in_loop(%x: f32[3]) {
  %n = tensor(0, i64)
  %s... = while_loop(func @test(%i: i64[], %a: f32[3]) {
      %t = lt(%i, 3)
      return %t
    }, func @body(%i: i64[], %a: f32[3]) {
      %j = add(%i, 1)
      %h = sin(%a)
      on_grad(%h, func @hook(%g: f32[3]) {
          %d = mul(%g, 2.0)
          return %d
        }, [])
      %b = mul(%h, 1.5)
      return %j, %b
    }, [%n, %x], [])
  return %s.1
}

case "a hook in every iteration of a loop" {
  %x = randn([3], seed=1, requires_grad=true)
  call @in_loop(%x)
  backward seed=3
}

func @in_region(%x: f32[3], %w: f32[3]) {
  %a... = region(func @layer(%h: f32[3] grad, %v: f32[3] grad) {
      %m = mul(%h, %v) : f32[3] grad
      on_grad(%m, func @hook(%g: f32[3]) {
          %d = clamp(%g, -0.5, 0.5)
          return %d
        }, [])
      %t = tanh(%m) : f32[3] grad
      return %t
    }, [%x, %w])
  return %a.0
}

case "a hook in a region" {
  %x = randn([3], seed=1, requires_grad=true)
  %w = randn([3], seed=2, requires_grad=true)
  call @in_region(%x, %w)
  backward seed=3
}

func @fails(%x: f32[3]) {
  %h = sin(%x)
  on_grad(%h, func @hook(%g: f32[3]) {
      %d = reshape(%g, [3,1])
      return %d
    }, [])
  %y = exp(%h)
  return %y
}

case "a hook that changes sizes fails in backward" {
  %x = randn([3], seed=1, requires_grad=true)
  call @fails(%x)
  backward seed=3
}

# test_register_hook_in_checkpoint_accumulated_grad: the checkpointed value has a hook
# of its own and is also used outside of the region.
func @hooked_region(%x: f32[3]) {
  %y = mul(%x, 2.0)
  %v = view(%y, [3]) : f32[3] prefer_recompute 1
  on_grad(%v, func @hook(%g: f32[3]) {
      %d = mul(%g, 0.5)
      return %d
    }, [])
  %z = clone(%v) : f32[3] prefer_recompute 1
  %r = add(%z, %y)
  return %r
}
case "a hook in a checkpoint region, and a use outside" {
  %x = randn([3], seed=1, requires_grad=true)
  call @hooked_region(%x)
  backward seed=3
}

# test_tags_must_save_tensor_that_has_backward_hook: the result of a region.
func @hook_on_region(%x: f32[3,3], %w: f32[3,3]) {
  %s = sin(%x) : f32[3,3] prefer_recompute 1
  %m = mm(%s, %w) : f32[3,3] prefer_recompute 1
  %z = sigmoid(%m) : f32[3,3] prefer_recompute 1
  on_grad(%z, func @hook(%g: f32[3,3], %a: f32[3,3]) {
      %d = mul(%g, %a)
      return %d
    }, [%z])
  %t = mm(%z, %w)
  return %t
}
case "a hook on the result of a checkpoint region reads it" {
  %x = randn([3,3], seed=1, requires_grad=true)
  %w = randn([3,3], seed=2, requires_grad=true)
  call @hook_on_region(%x, %w)
  backward seed=3
}
