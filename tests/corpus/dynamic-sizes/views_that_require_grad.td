# Views that require grad: their sizes may be symbols, alone, written or beside their base.

func @f(%x, %w) {
  %y = matmul(%x, %w)
  %z = mul(%y, %y)
  return %z
}

func @g(%x, %w) {
  %y = matmul(%x, %w)
  mul_(%x, 2.0)
  %v = select(%x, 0, 0)
  return %y, %v
}

func @h(%t, %x) {
  %y = mul(%t, 2.0)
  %z = matmul(%x, %y)
  %s = sum(%t)
  return %z, %s
}

func @d(%x, %w) {
  %y = matmul(%x, %w)
  detach_(%x)
  return %y, %x
}

case "a view alone" {
  %l = randn([12], f32, seed=1, requires_grad=true)
  %m = mul(%l, 2.0)
  %x = view(%m, [4,3])
  %w = randn([3,3], f32, seed=2, requires_grad=true)
  call @f(%x, %w) dynamic=first
  backward seed=3
  %l2 = randn([21], f32, seed=1, requires_grad=true)
  %m2 = mul(%l2, 2.0)
  %x2 = view(%m2, [7,3])
  call @f(%x2, %w) dynamic=first
  backward seed=3
}

case "a written view" {
  %l = randn([12], f32, seed=1, requires_grad=true)
  %m = mul(%l, 2.0)
  %x = view(%m, [4,3])
  %w = randn([3,3], f32, seed=2)
  call @g(%x, %w) dynamic=first
  backward seed=3
  %l2 = randn([21], f32, seed=1, requires_grad=true)
  %m2 = mul(%l2, 2.0)
  %x2 = view(%m2, [7,3])
  call @g(%x2, %w) dynamic=first
  backward seed=3
}

case "a view beside its base" {
  %l = randn([4,3], f32, seed=1, requires_grad=true)
  %x = mul(%l, 2.0)
  %t = transpose(%x, 0, 1)
  call @h(%t, %x) dynamic=all
  backward seed=3
  %l2 = randn([7,3], f32, seed=1, requires_grad=true)
  %x2 = mul(%l2, 2.0)
  %t2 = transpose(%x2, 0, 1)
  call @h(%t2, %x2) dynamic=all
  backward seed=3
}

case "detached, an error in eager" {
  %l = randn([12], f32, seed=1, requires_grad=true)
  %x = view(%l, [4,3])
  %w = randn([3,3], f32, seed=2)
  call @d(%x, %w) dynamic=maybe
}
