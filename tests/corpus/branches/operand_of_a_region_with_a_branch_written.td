# A branch inside a region saves an operand that is written later, and its backward reads
# it as it was; eager saves nothing for the branch that runs.

func @f(%p0: f32[1,1]) {
  %v0 = mul(%p0, 2.0)
  %v1 = region(func @r0(%a: f32[1,1], %b: f32[1,1]) {
      %s = full([], 1, i64)
      %t = cond(%s, func @yes(%c: f32[1,1], %d: f32[1,1]) {
        return %d
      }, func @no(%c: f32[1,1], %d: f32[1,1]) {
        return %c
      }, [%a, %b])
      return %t
    }, [%p0, %v0])
  zero_(%v0)
  return %v1
}

case "operand of a region with a branch, written" {
  %a0 = full([1,1], 3, f32, requires_grad=true)
  call @f(%a0) control=true
  backward
}
