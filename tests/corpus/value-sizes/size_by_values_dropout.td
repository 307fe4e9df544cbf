# Refused: dropout of nothing draws nothing and is no write.

func @f() {
  %v2 = full([2,2,2,2], 2, f32)
  %v3... = chunk(%v2, 2, 2)
  %v4 = tensor([0], bool, [1])
  %v5 = masked_select(%v3.0, %v4)
  dropout_(%v5)
  return %v5
}
case "size by values dropout" {
  call @f()
}
