# a chain without readers goes, from its end
# run: dce
func @f(%x: f32[2]) {
  %a = neg(%x)
  %b = exp(%a)
  %y = tanh(%x)
  return %y
}
---
func @f(%x: f32[2]) {
  %y = tanh(%x)
  return %y
}
