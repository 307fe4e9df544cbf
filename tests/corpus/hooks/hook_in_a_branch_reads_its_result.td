# Refused: a hook reads the tensor that its branch returns, which is written behind the branch: eager's hook reads
# the new value.

func @f(%p0: f32[1,2,2]) {
  %v3 = sum(%p0)
  %v4 = lt(%v3, 2.0)
  %v5 = cond(%v4, func @yes(%a: f32[1,2,2]) {
      %r = mul(%a, %a)
      return %r
    }, func @no(%a: f32[1,2,2]) {
      %q = mul(%a, 2.0)
      on_grad(%q, func @hook(%g: f32[1,2,2], %e: f32[1,2,2]) {
        return %e
      }, [%q])
      return %q
    }, [%p0])
  %v7 = log_(%v5)
  return %v7
}

case "the branch that registers it runs" {
  %a0 = full([1,2,2], 2, f32, requires_grad=true)
  call @f(%a0) control=true
  backward
}
