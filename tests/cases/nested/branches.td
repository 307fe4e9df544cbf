# Branches and loops in text: a nested function reads nothing but its inputs.

func @choose(%x: f32[2,3] grad, %w: f32[3]) {
  %s = sum(%x)
  %p = gt(%s, 0.0)
  %y, %n = cond(%p, func @yes(%a: f32[2,3], %b: f32[3]) {
    %m = mul(%a, %b)
    add_(%m, 1.0)
    %t = exp(%b)
    return %m, %t
  }, func @no(%a: f32[2,3], %b: f32[3]) {
    %d = sin(%a)
    %c = sub(%b, 2.0)
    return %d, %c
  }, [%x, %w])
  %z = mul(%y, %n)
  return %z, %n
}

case "the flag holds" {
  %x = randn([2,3], seed=1, requires_grad=true)
  %one = mul(%x, %x)
  %w = randn([3], seed=2, requires_grad=true)
  call @choose(%one, %w)
  backward seed=3
}

case "the flag does not hold" {
  %x = randn([2,3], seed=1)
  %sq = mul(%x, %x)
  %neg = neg(%sq)
  %w = randn([3], seed=2, requires_grad=true)
  call @choose(%neg, %w)
  backward seed=3
}

# A result that is an operand, or shares bytes with another result, is a copy.
func @copies(%x: f32[4]) {
  %p = tensor([1.0], f32)
  %a, %b = cond(%p, func (%a: f32[4]) {
    %v = view(%a, [4])
    return %a, %v
  }, func (%a: f32[4]) {
    %e = exp(%a)
    return %e, %e
  }, [%x])
  mul_(%a, 3.0)
  return %a, %b
}

case "results of their own" {
  %x = randn([4], seed=1, requires_grad=true)
  call @copies(%x)
  backward seed=2
}

func @count(%x: f32[4]) {
  %zero = tensor([0.0], f32)
  %n, %y = while_loop(func @test(%n: f32[1], %y: f32[4], %k: f32[4]) {
    %s = sum(%y)
    %t = lt(%s, 50.0)
    return %t
  }, func @body(%n: f32[1], %y: f32[4], %k: f32[4]) {
    %m = add(%n, 1.0)
    %z = mul(%y, 1.5)
    add_(%z, %k)
    return %m, %z
  }, [%zero, %x], [%x])
  return %n, %y
}

case "some turns" {
  %x = tensor([1.0, 2.0, 0.5, 0.25], f32)
  call @count(%x)
}

case "no turn" {
  %x = tensor([100.0, 2.0, 0.5, 0.25], f32)
  call @count(%x)
}

case "some turns, backward" {
  %x = tensor([1.0, 2.0, 0.5, 0.25], f32, requires_grad=true)
  call @count(%x)
  backward seed=2
}

case "no turn, backward" {
  %x = tensor([100.0, 2.0, 0.5, 0.25], f32, requires_grad=true)
  call @count(%x)
  backward seed=2
}

case "other turns at each call" {
  %x = tensor([1.0, 2.0, 0.5, 0.25], f32, requires_grad=true)
  %y = tensor([9.0, 2.0, 0.5, 0.25], f32, requires_grad=true)
  call @count(%x)
  backward seed=2
  call @count(%y)
  backward seed=3
}

# One branch inside another, the inner one with a constant.
func @deep(%x: f32[3]) {
  %p = tensor([1.0], f32)
  %y = cond(%p, func @yes(%a: f32[3]) {
    %s = sum(%a)
    %q = gt(%s, 0.0)
    %r = cond(%q, func @inner_yes(%b: f32[3]) {
      %c = tensor([1.0, 2.0, 3.0], f32)
      %m = mul(%b, %c)
      return %m
    }, func @inner_no(%b: f32[3]) {
      %m = neg(%b)
      return %m
    }, [%a])
    return %r
  }, func @no(%a: f32[3]) {
    %e = exp(%a)
    return %e
  }, [%x])
  return %y
}

case "inside each other" {
  %x = randn([3], seed=1, requires_grad=true)
  call @deep(%x)
  backward seed=2
}
