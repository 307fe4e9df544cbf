# A saved operand of a region was laid out by the op copy, which gives a plain tensor for this type.

func @f( %p1) {
  %v3 = region(func @r0(%a: f32[1,2,2]) {
      %s = sum(%a, [0], true)
      %r = mul(%s, %a)
      return %r
    }, [%p1])
  return %v3
}
func @g(%q0: f32[1,2,0] of fz_rounded("", f32[1,2,0]{8,4,1}+4, f32[]), %q1: f32[1,2,2]) {
  return 
}
case "seed 2300189480" {
  %a2 = full([1,2,4], 2, f32)
  %a3 = full([], 0.25, f32)
  %a4 = _wrap([%a2, %a3], "fz_rounded", "", [1,2,4], [], f32, requires_grad=true)
  %a5... = dsplit_indices(%a4, [2,-1,2,4])
  call @f( %a5.3) body=true
  backward
}
