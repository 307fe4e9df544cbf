# Effects of a branch and of a loop happen as often as in eager, in its order, in forward and backward.

func @f(%x: f32[2], %p: i64[]) {
  fz_mark(%x, 1)
  %y = cond(%p, func @yes(%a: f32[2]) {
    %q = fz_note(%a, 2)
    %r = mul(%q, %q)
    return %r
  }, func @no(%a: f32[2]) {
    fz_mark(%a, 3)
    %r = fz_same(%a, 4)
    return %r
  }, [%x])
  %n = full([], 0, i64)
  %m, %z = while_loop(func @test(%n: i64[], %s: f32[2]) {
    %t = lt(%n, 3)
    return %t
  }, func @body(%n: i64[], %s: f32[2]) {
    %k = add(%n, 1)
    fz_mark(%s, 5)
    %u = sin(%s)
    %v = fz_same(%u, 6)
    return %k, %v
  }, [%n, %y], [])
  %w = fz_note(%z, 7)
  return %w
}

case "branch yes" {
  %x = randn([2], seed=1, requires_grad=true)
  %p = full([], 1, i64)
  call @f(%x, %p)
  backward seed=2
}

case "branch no" {
  %x = randn([2], seed=1, requires_grad=true)
  %p = full([], 0, i64)
  call @f(%x, %p)
  backward seed=2
}

case "branches and loops of the body" {
  %x = randn([2], seed=1, requires_grad=true)
  %p = full([], 1, i64)
  call @f(%x, %p) control=true
  backward seed=2
}
