# Backward reads the predicate of a branch; the program may write it afterwards.

func @f(%x: f32[2], %p: i64[1]) {
  %s = mul(%p, 1)
  %y = cond(%s, func @yes(%a: f32[2]) {
    %r = sin(%a)
    return %r
  }, func @no(%a: f32[2]) {
    %r = neg(%a)
    return %r
  }, [%x])
  zero_(%s)
  return %y, %s
}
case "the predicate was true" {
  %x = randn([2], seed=1, requires_grad=true)
  %p = tensor([1], i64)
  call @f(%x, %p) control=true
  backward %out.0 seed=3
}
