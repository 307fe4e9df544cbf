# nodes go in the order the outputs need them
# run: order
func @f(%x: f32[2], %y: f32[2]) {
  %c = exp(%y)
  %unused = neg(%c)
  %b = neg(%y)
  %a = neg(%x)
  %r = add(%a, %b)
  %s = mul(%r, %c)
  return %s
}
func @same(%x: f32[2], %y: f32[2]) {
  %a = neg(%x)
  %b = neg(%y)
  %r = add(%a, %b)
  %c = exp(%y)
  %unused = neg(%c)
  %s = mul(%r, %c)
  return %s
}
---
func @f(%x: f32[2], %y: f32[2]) {
  %a = neg(%x)
  %b = neg(%y)
  %r = add(%a, %b)
  %c = exp(%y)
  %s = mul(%r, %c)
  %unused = neg(%c)
  return %s
}

func @same(%x: f32[2], %y: f32[2]) {
  %a = neg(%x)
  %b = neg(%y)
  %r = add(%a, %b)
  %c = exp(%y)
  %s = mul(%r, %c)
  %unused = neg(%c)
  return %s
}
