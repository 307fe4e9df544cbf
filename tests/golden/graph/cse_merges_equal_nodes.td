# equal pure nodes become one, also when their arguments only become equal
# run: cse
func @f(%x: f32[2], %y: f32[2]) {
  %a = add(%x, %y)
  %b = add(%x, %y)
  %c = mul(%a, 2.0)
  %d = mul(%b, 2.0)
  %e = add(%c, %d)
  return %e
}
---
func @f(%x: f32[2], %y: f32[2]) {
  %a = add(%x, %y)
  %c = mul(%a, 2.0)
  %e = add(%c, %c)
  return %e
}
