# NaN is 0 before elements are cast to whole numbers.

func @f(%x: f32[3]) {
  %s = nansum(%x, none, false, i64)
  return %s
}

case "a NaN among them" {
  %x = tensor([1, nan, 3], f32, [3])
  call @f(%x)
}
