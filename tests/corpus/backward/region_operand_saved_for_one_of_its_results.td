# An operand that eager saves for one result of a region is written; the backward starts at the other one.

func @f(%p0: f32[1,4]) {
  %v1, %v2 = region(func @r0(%a: f32[1,4], %b: f32[1,4]) {
      %e = exp(%a)
      %p = mul(%e, %b)
      %q = mul(%e, %e)
      return %p, %q
    }, [%p0, %p0])
  %v3, %v4 = region(@r0, [%v1, %v1])
  reciprocal_(%v1)
  return %v4
}
case "seed 1000135493" {
  %a0 = tensor([-1, -1, 1, -1], f32, [1,4], requires_grad=true)
  call @f(%a0) control=true
  backward
}
