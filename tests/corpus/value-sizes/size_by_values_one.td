# Refused: whether a size is 1 depends on values.

func @f(%p0: f32[]) {
  %v1 = randint(0, 1, [], bool)
  %v2 = masked_select(%p0, %v1)
  %v7 = squeeze_dim_inverse(%v2, %v2, 0)
  return %v7
}
case "size by values one" {
  %a1 = tensor([1, -1, 1], f32, [3])
  %a2... = unbind(%a1, -1)
  call @f(%a2.2)
}
