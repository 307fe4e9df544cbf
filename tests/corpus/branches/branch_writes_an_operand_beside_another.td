# Operands of a branch share a storage, and one of them is written. Columns of one tensor
# do not overlap: the other operand stays as it is. Two tensors with the same elements are
# one operand. Both were refused.

func @columns(%p0: i64[2,1], %p1: i64[2,1], %c: bool[]) {
  %r = cond(%c, func @yes(%a: i64[2,1], %b: i64[2,1]) {
      add_(%a, %b)
      mul_(%a, 2)
      %m = mul(%b, %a)
      return %m
    }, func @no(%a: i64[2,1], %b: i64[2,1]) {
      mul_(%a, 3)
      add_(%a, %b)
      return %a
    }, [%p0, %p1])
  return %r
}
func @twins(%p0: f32[2], %c: bool[]) {
  %v = view(%p0, [2])
  %w = slice(%p0, 0, 0, 2)
  %r = cond(%c, func @yes(%a: f32[2], %b: f32[2]) {
      add_(%a, %b)
      %m = mul(%b, %a)
      return %m
    }, func @no(%a: f32[2], %b: f32[2]) {
      mul_(%b, 3)
      %m = sub(%b, %a)
      return %m
    }, [%v, %w])
  return %r, %w
}
case "columns, yes" {
  %t = tensor([1, 2, 3, 4], i64, [2,2])
  %a, %b = split(%t, 1, 1)
  %c = full([], true, bool)
  call @columns(%a, %b, %c) control=true
  call @columns(%b, %a, %c) control=true
}
case "columns, no" {
  %t = tensor([1, 2, 3, 4], i64, [2,2])
  %a, %b = split(%t, 1, 1)
  %c = full([], false, bool)
  call @columns(%a, %b, %c) control=true
}
case "twins" {
  %t = tensor([1, 2], f32, [2])
  %c = full([], true, bool)
  call @twins(%t, %c) control=true
  %d = full([], false, bool)
  call @twins(%t, %d) control=true
}
