# Views that require grad have symbolic sizes: they are written, returned, and passed
# together with their base, in calls of other sizes.

func @writes(%v) {
  mul_(%v, 2.0)
  %t = transpose(%v, 0, 1)
  %s = sin(%t)
  return %s, %t
}

case "a view that is written" {
  %a = randn([5,3], seed=1, requires_grad=true)
  %b = mul(%a, 1.0)
  %v = narrow(%b, 0, 1, 3)
  %s, %t = call @writes(%v) dynamic=all
  backward %s seed=3
  %c = randn([7,4], seed=2, requires_grad=true)
  %d = mul(%c, 1.0)
  %w = narrow(%d, 0, 2, 4)
  %u, %x = call @writes(%w) dynamic=all
  backward %u, %d seed=4
  %y = transpose(%d, 0, 1)
  %z, %k = call @writes(%y)
  backward %k seed=5
}

func @both(%b, %v) {
  add_(%v, 1.0)
  %p = sum(%b)
  %q = mul(%v, %v)
  return %p, %q, %v
}

case "a view and its base" {
  %a = randn([5,3], seed=1, requires_grad=true)
  %b = mul(%a, 1.0)
  %v = narrow(%b, 0, 1, 3)
  %p, %q, %r = call @both(%b, %v) dynamic=all
  backward %p, %q seed=3
  %c = randn([6,4], seed=2, requires_grad=true)
  %d = mul(%c, 1.0)
  %w = narrow(%d, 0, 1, 3)
  %s, %t, %u = call @both(%d, %w) dynamic=all
  mul_(%u, 2.0)
  backward %s, %d seed=4
}

func @reads(%v) {
  %e = expand(%v, [2,-1,-1])
  %y = exp(%e)
  return %y, %e
}

case "views of a leaf" {
  %a = randn([5,3], seed=1, requires_grad=true)
  %v = narrow(%a, 1, 0, 2)
  %y, %e = call @reads(%v) dynamic=all
  backward %y seed=3
  %c = randn([4,4], seed=2, requires_grad=true)
  %w = t(%c)
  %z, %f = call @reads(%w) dynamic=all
  backward %z, %f seed=4
  %g = grad %c
}

case "a stale view" {
  %a = randn([5,3], seed=1, requires_grad=true)
  %b = mul(%a, 1.0)
  %v = narrow(%b, 0, 1, 3)
  mul_(%b, 2.0)
  %y, %e = call @reads(%v) dynamic=all
  backward %y, %b seed=3
}

case "a view made under no_grad may not be written" {
  %a = randn([5,3], seed=1, requires_grad=true)
  %b = mul(%a, 1.0)
  no_grad {
    %n = narrow(%b, 0, 0, 4)
  }
  %z, %f = call @reads(%n) dynamic=all
  %x, %t = call @writes(%n)
}
