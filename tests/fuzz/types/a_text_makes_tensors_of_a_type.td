# A program in text makes tensors of a type: of arguments that it only reads, and of values of its own, which it writes as a whole.

func @reads(%p0: f32[2,3], %p1: f32[2,3]) {
  %v0 = _wrap([%p0, %p1], "fz_pair", "", [2,3], [], f32)
  %v1 = mul(%v0, 2.0)
  %v2 = clone(%v0)
  mul_(%v2, 3.0)
  return %v1, %v2
}

func @own(%p0: f32[2,3], %p1: f32[2,3]) {
  %a = sin(%p0)
  %b = cos(%p1)
  %v0 = _wrap([%a, %b], "fz_pair", "", [2,3], [], f32)
  %v1 = mul(%v0, 2.0)
  mul_(%v0, 3.0)
  return %v1, %v0
}

func @nested(%p0, %p1) {
  %a = mul(%p0, 3.0)
  %b = mul(%p1, 3.0)
  %v0 = _wrap([%a, %b], "fz_pair", "", [2,3], [], f32)
  mul_(%v0, 2.0)
  return %v0
}

case "arguments are read" {
  %a = randn([2,3], seed=1)
  %b = randn([2,3], seed=2)
  call @reads(%a, %b)
}

case "values of the program are written as a whole" {
  %a = randn([2,3], seed=1, requires_grad=true)
  %b = randn([2,3], seed=2)
  call @own(%a, %b)
}

case "types nest" {
  %a = randn([2,3], seed=1)
  %b = randn([2,3], seed=2)
  %c = randn([2,3], seed=3)
  %d = randn([2,3], seed=4)
  %x = _wrap([%a, %b], "fz_pair", "", [2,3], [], f32)
  %y = _wrap([%c, %d], "fz_pair", "", [2,3], [], f32)
  call @nested(%x, %y)
}
