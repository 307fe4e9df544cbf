# seed 324841: compiled: line 11: works, compiled fails: gelu: its backward needs a (bf16[] saved at version 0), but it has been modified in place by tan_ (version 1); write to a clone, or write before gelu reads it

func @f(%p0: bf16[]) {
  %v1 = pow_3(%p0)
  %v2 = view_dtype(%v1, f16)
    %v4 = requires_grad_(%v1, true)
  %v7 = gelu(%v1)
  tan_(%v2)
  return %v7, %v4
}
case "seed 324841" {
  %a2 = full([], 1, bf16)
  call @f(%a2)
}
