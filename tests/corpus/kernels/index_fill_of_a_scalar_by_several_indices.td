# A device read the value of the second index behind the first: of a tensor without dims its stride was not zero.

func @f(%p0: f16[], %i: i64[3]) {
  %v = mul(%p0, 2.0)
  %w = index_fill_(%v, 0, %i, 1.0)
  return %w
}

case "index_fill_ of a tensor without dims by several indices" {
  %a = tensor([3.5], f16, [])
  %i = tensor([0, 0, 0], i64, [3])
  call @f(%a, %i)
}
