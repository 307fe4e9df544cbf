# run: infer
func @f(%x: f32[4,3], %y: f32[4]) {
  %t = add(%x, %y)
  return %t
}
---
error: add: cannot broadcast f32[4,3] with f32[4]: dim -1 is 3 and 4; sizes must be equal or 1, compared from the last dim on (infer_refuses.td:3)
