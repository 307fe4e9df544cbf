# Refused: a branch writes a pair that shares an inner tensor, with another argument or in itself; its copies shared none.

func @f(%p0, %p1) {
  %v1 = sum(%p0)
  %v2 = cond(%v1, func @yes(%a: i64[2,2,2], %b: i64[2,2,2]) {
    add_(%a, %b)
    %r = mul(%b, %a)
    return %r
  }, func @no(%a: i64[2,2,2], %b: i64[2,2,2]) {
    return %a
  }, [%p1, %p0])
  return %v2
}
func @g(%p0, %p1) {
  %v2 = cond(%p1, func @yes(%a: i64[2,2]) {
    add_(%a, 1)
    %r = mul(%a, %a)
    return %r
  }, func @no(%a: i64[2,2]) {
    return %a
  }, [%p0])
  return %v2
}
case "with another argument" {
  %a0 = randint(-2, 2, [2,2,2], i64, seed=1)
  %a9 = randint(-2, 2, [2,2,2], i64, seed=2)
  %a10 = _wrap([%a0, %a9], "fz_pair", "", [2,2,2], [], i64)
  %a11 = _wrap([%a10, %a0], "fz_pair", "", [2,2,2], [], i64)
  call @f(%a0, %a11) control=true
}
case "in itself" {
  %a0 = randint(-2, 2, [2,2], i64, seed=1)
  %a1 = _wrap([%a0, %a0], "fz_pair", "", [2,2], [], i64)
  %t = tensor([1], i64)
  call @g(%a1, %t) control=true
}
