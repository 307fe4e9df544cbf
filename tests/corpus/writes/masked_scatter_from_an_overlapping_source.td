# masked_scatter_ reads its source before it writes, so that the two may share bytes.

func @f(%p: f32[2,2], %m: bool[2,2], %q: f32[2,2]) {
  masked_scatter_(%p, %m, %q)
  return %q
}

case "the transpose of what is written" {
  %x = tensor([1, 2, 3, 4], f32, [2,2])
  %t = transpose(%x, 0, 1)
  %m = tensor([0, 1, 1, 1], bool, [2,2])
  call @f(%x, %m, %t)
}
