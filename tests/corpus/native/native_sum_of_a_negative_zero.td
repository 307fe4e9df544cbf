# A sum begins with 0: that of one element -0 is 0, also in a kernel that has nothing to
# fold. The reciprocal shows the sign.

func @sums(%a) {
  %s = sum(%a, [0], true)
  %t = mean(%a, [0], true)
  %u = cumsum(%a, 0)
  %v = sum(%a)
  %w = nansum(%a, [0])
  %p = prod_dim(%a, 0)
  %m = amax(%a, [0])
  %r = reciprocal(%s)
  %r1 = reciprocal(%t)
  %r2 = reciprocal(%u)
  %r3 = reciprocal(%v)
  %r4 = reciprocal(%w)
  %r5 = reciprocal(%p)
  %r6 = reciprocal(%m)
  return %r, %r1, %r2, %r3, %r4, %r5, %r6
}

func @broadcast(%a, %b) {
  %c = mul(%a, %b)
  return %c
}

case "one element" {
  %a = tensor([-0.0], f32, [1])
  call @sums(%a)
}

case "one row" {
  %a = tensor([-0.0, -0.0, -0.0], f32, [1,3])
  call @sums(%a)
}

case "three rows" {
  %a = tensor([-0.0, -0.0, -0.0], f32, [3,1])
  call @sums(%a)
}

case "halves" {
  %a = tensor([-0.0, -0.0, -0.0], f16, [1,3])
  call @sums(%a)
}

case "f64" {
  %a = tensor([-0.0, 0.0, -1.0], f64, [1,3])
  call @sums(%a)
}

case "the gradient of a broadcast argument" {
  %a = tensor([-0.0], f32, [1], requires_grad=true)
  %b = tensor([-0.0, -0.0, -0.0], f32, [1,1,3], requires_grad=true)
  call @broadcast(%a, %b)
  backward
}
