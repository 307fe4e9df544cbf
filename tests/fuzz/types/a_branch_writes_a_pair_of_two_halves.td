# A branch writes a pair of two halves of a tensor, which share its storage and no elements.

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
case "halves" {
  %a0 = randint(-2, 2, [4,2], i64, seed=1)
  %x, %y = chunk(%a0, 2, 0)
  %a1 = _wrap([%x, %y], "fz_pair", "", [2,2], [], i64)
  %t = tensor([1], i64)
  call @g(%a1, %t) control=true
}
