# A fraction becomes true as a bool: it is not truncated to an integer first.

func @f(%mask: bool[3]) {
  %part = full([], 0.25, f32)
  %large = full([], 4294967296, i64)
  %off = full([3], 0, bool)
  %a = masked_fill(%off, %mask, %part)
  %b = masked_fill(%off, %mask, %large)
  masked_fill_(%off, %mask, %part)
  return %a, %b, %off
}

case "seed 211054227" {
  %mask = tensor([1, 0, 1], bool, [3])
  call @f(%mask)
}
