# writes and draws stay, also when nobody reads their results; so does what they read
# run: dce
func @f(%x: f32[2], %m: f32[2]) {
  %s = mul(%x, 2.0)
  %v = select(%m, 0, 0)
  add_(%m, %s)
  %r = rand([2])
  %d = dropout(%x)
  %dead = neg(%r)
  return %x
}
---
func @f(%x: f32[2], %m: f32[2]) {
  %s = mul(%x, 2.0)
  add_(%m, %s)
  %r = rand([2])
  %d = dropout(%x)
  return %x
}
