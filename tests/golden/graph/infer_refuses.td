# run: infer
func @f(%x: f32[4,3], %y: f32[4]) {
  %t = add(%x, %y)
  return %t
}
---
error: add: cannot broadcast f32[4,3] with f32[4] (infer_refuses.td:3)
