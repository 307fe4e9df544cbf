# 29_guards.td -- one function called with arguments of other kinds: the group 29 of
# tests/README.md. Compiled code that does not fit is compiled anew; counts of that are
# in unit/sem_aot.c.

func @times(%x: f32[3], %y: f32[3]) {
  %a = mul(%x, 2.0)
  %z = mul(%a, %y)
  return %z
}
case "test_invalid_requires_grad off, then on" {
  %x = randn([3], seed=1, requires_grad=true)
  %y = randn([3], seed=2)
  %w = randn([3], seed=4, requires_grad=true)
  call @times(%x, %y)
  backward seed=3
  call @times(%x, %w)
  backward seed=3
}
case "test_invalid_requires_grad on, then off" {
  %x = randn([3], seed=1, requires_grad=true)
  %y = randn([3], seed=2)
  %w = randn([3], seed=4, requires_grad=true)
  call @times(%x, %w)
  backward seed=3
  call @times(%x, %y)
  backward seed=3
}

func @write_both(%x: f32[4], %y: f32[4]) {
  mul_(%x, 2.0)
  %z = add(%x, %y)
  add_(%y, 1.0)
  return %z
}
case "alias patterns apart, the same, overlapping, apart" {
  %a = randn([4], seed=1)
  %b = randn([4], seed=2)
  %c = randn([6], seed=3)
  %d = slice(%c, 0, 0, 4)
  %e = slice(%c, 0, 2, 6)
  call @write_both(%a, %b)
  call @write_both(%a, %a)
  call @write_both(%d, %e)
  call @write_both(%e, %d)
  call @write_both(%b, %a)
}
case "alias patterns NL" {
  %a0 = randn([4], seed=1, requires_grad=true)
  %a = mul(%a0, 1.0)
  %c0 = randn([6], seed=3, requires_grad=true)
  %c = mul(%c0, 1.0)
  %d = slice(%c, 0, 0, 4)
  %e = slice(%c, 0, 2, 6)
  %b = randn([4], seed=2)
  %u = call @write_both(%a, %b)
  %v = call @write_both(%d, %e)
  %w = call @write_both(%a, %a)
  backward %u, %v, %w seed=5
}
case "layouts of one function" {
  %a = randn([4], seed=1)
  %p = randn([4,2], seed=2)
  %q = select(%p, 1, 0)
  %r = slice(%a, 0, 0, 4)
  call @write_both(%a, %q)
  call @write_both(%q, %r)
}

func @mode(%x: f32[3]) {
  %y = sin(%x)
  return %y
}
case "grad mode on, off, on" {
  %x = randn([3], seed=1, requires_grad=true)
  call @mode(%x)
  backward seed=2
  no_grad {
    call @mode(%x)
  }
  call @mode(%x)
  backward seed=2
  inference {
    call @mode(%x)
  }
}
