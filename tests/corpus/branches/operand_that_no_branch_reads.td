# An operand that neither branch reads gets no gradient, not zeros.

func @f(%x: f32[2], %z: f32[2]) {
  %s = full([], 1, i64)
  %y = cond(%s, func @yes(%a: f32[2], %b: f32[2]) {
    %r = sin(%a)
    return %r
  }, func @no(%a: f32[2], %b: f32[2]) {
    %p = gt(%b, 0.0)
    %r = mul(%a, %p)
    return %r
  }, [%x, %z])
  return %y
}
case "a comparison is no use for gradients" {
  %x = randn([2], seed=1, requires_grad=true)
  %z = randn([2], seed=2, requires_grad=true)
  call @f(%x, %z) control=true
  backward seed=3
}
