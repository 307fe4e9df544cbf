# Folding read elements of a tensor of a type.

func @f(%p0) {
  %v3 = full([2], 2, f32)
  %v4 = mul(%v3, 2)
  %v5 = neg(%v3)
  %v6 = _wrap([%v4, %v5], "fz_pair", "", [2], [], f32)
  %v7 = add(%p0, %v6)
  return %v7
}

case "constants of a type are not folded" {
  %a0 = randn([2], f32, seed=1)
  call @f(%a0)
}
