# 1, 1.0 and true are different arguments; so are 0.0 and -0.0
# run: cse
func @f(%x: i64[2]) {
  %a = mul(%x, 1)
  %b = mul(%x, 1.0)
  %c = mul(%x, true)
  %d = mul(%x, 0.0)
  %e = mul(%x, -0.0)
  %f = mul(%x, 1)
  %s = stack([%a, %f])
  return %b, %c, %d, %e, %s
}
---
func @f(%x: i64[2]) {
  %a = mul(%x, 1)
  %b = mul(%x, 1.0)
  %c = mul(%x, true)
  %d = mul(%x, 0.0)
  %e = mul(%x, -0.0)
  %s = stack([%a, %a])
  return %b, %c, %d, %e, %s
}
