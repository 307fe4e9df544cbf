# A leaf made inside and returned, which its results depend on, overwritten.

func @f(%p0: bf16[]) {
  %v1 = pow_3(%p0)
  %v2 = view_dtype(%v1, f16)
  %v4 = requires_grad_(%v1, true)
  %v7 = gelu(%v1)
  tan_(%v2)
  return %v7, %v4
}
case "leaf overwritten" {
  %a2 = full([], 1, bf16)
  call @f(%a2)
}
