# complex.td -- complex values in compiled functions: compiled equals eager, gradients,
# writes through views of the parts, and saved values included (docs/complex.md).

func @pointwise(%z: c64[2,2] grad, %w: c64[2,2] grad) {
  %a = mul(%z, %w)
  %b = exp(%a)
  %c = div(%b, %z)
  %d = abs(%c)
  return %c, %d
}
case "pointwise ops and their gradients" {
  %z = tensor([[[1, 2], [0.5, -1]], [[2, 0], [-1, 1]]], c64, requires_grad=true)
  %w = tensor([[[0, 1], [1, -1]], [[0.5, 0.5], [1, 0]]], c64, requires_grad=true)
  call @pointwise(%z, %w)
  backward seed=3
}

func @parts(%z: c64[3] grad) {
  %c = clone(%z)
  %i = imag(%c)
  mul_(%i, 3.0)
  %v = view_as_real(%c)
  add_(%v, 1.0)
  %r = real(%c)
  %s = sin(%r)
  return %c, %s
}
case "writes through views of the parts" {
  %z = tensor([[1, 2], [0.5, -1], [2, 0]], c64, requires_grad=true)
  call @parts(%z)
  backward seed=3
}

func @written(%z: c64[3], %x: f32[3] grad) {
  mul_(%z, 2.0)
  %i = imag(%z)
  neg_(%i)
  %y = mul(%z, %x)
  return %y
}
case "a written complex argument, and a real one that gets the real part" {
  %z = tensor([[1, 2], [0.5, -1], [2, 0]], c64)
  %x = randn([3], seed=1, requires_grad=true)
  call @written(%z, %x)
  backward seed=3
  call @written(%z, %x)
  backward seed=4
}

func @of_pairs(%x: f32[3,2] grad, %m: c64[3,2] grad) {
  %z = view_as_complex(%x)
  %p = matmul(%z, %m)
  %n = vdot(%p, %p)
  %r = real(%n)
  return %r, %p
}
case "pairs of real numbers as complex ones, and products" {
  %x = randn([3,2], seed=1, requires_grad=true)
  %m = tensor([[[1, 2], [0.5, -1]], [[2, 0], [-1, 1]], [[0, 1], [1, 1]]], c64, requires_grad=true)
  call @of_pairs(%x, %m)
  backward seed=3
}

func @in_place(%z: c64[2,2] grad) {
  %a = sin(%z)
  mul_(%a, %z)
  %t = t(%a)
  exp_(%t)
  %c = conj(%a)
  %s = sum(%c, [0])
  return %a, %s
}
case "writes in place, conjugates and sums" {
  %z = tensor([[[1, 0.5], [0.5, -1]], [[0.25, 0], [-1, 1]]], c64, requires_grad=true)
  call @in_place(%z)
  backward seed=3
}

func @constant(%z: c64[2]) {
  %k = tensor([[0, 1], [2, -1]], c64)
  %y = mul(%z, %k)
  %e = eq(%y, %z)
  return %y, %e
}
case "a complex literal in a function" {
  %z = tensor([[1, 0.5], [0, 0]], c64)
  call @constant(%z)
}

func @sizes(%z: c128[3] grad) {
  %a = cumprod(%z, 0)
  %b = mean(%a)
  %c = angle(%a)
  return %b, %c
}
case "products along a dim, a mean, angles" {
  %z = tensor([[1, 0.5], [0.5, 1], [-1, 2]], c128, requires_grad=true)
  call @sizes(%z)
  backward seed=3
}

func @order(%z: c64[2]) {
  %y = relu(%z)
  return %y
}
case "an op without complex numbers fails in both" {
  %z = tensor([[1, 0.5], [0, 0]], c64)
  call @order(%z)
}

func @uniform(%z: c64[2]) {
  %k = tensor([[0, 1], [0, 1]], c64)
  %m = neg(%k)
  %y = mul(%z, %m)
  return %y
}
case "a folded constant keeps its imaginary parts" {
  %z = tensor([[1, 0.5], [0, 0]], c64)
  call @uniform(%z)
}
