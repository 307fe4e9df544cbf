# Two results had one inner tensor after equal nodes were merged.

func @f(%p0) {
  %v3 = mul(%p0, 2)
  %v4 = neg(%p0)
  %v5 = _wrap([%v3, %v4], "fz_pair", "", [2], [], f32)
  %v6 = mul(%p0, 2)
  %v7 = neg(%p0)
  %v8 = _wrap([%v6, %v7], "fz_pair", "", [2], [], f32)
  %v9 = mul(%p0, 2)
  %v10 = mul(%p0, 2)
  %v11 = _wrap([%v9, %v10], "fz_pair", "", [2], [], f32)
  return %v8, %v5, %v11
}

case "equal inner tensors of two results" {
  %a0 = tensor([1, -2], f32)
  call @f(%a0)
  no_grad {
    fill_(%out.1, 1)
  }
}
