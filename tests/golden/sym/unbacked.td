# run: dynamic
# A size that depends on values has a name, and what is asked of it is checked.
func @find(%x: f32[6]) {
  %i = nonzero(%x)
  %c = select(%i, 1, 0)
  %v = index_select(%x, 0, %c)
  return %v
}

func @meet(%x: f32[6], %y: f32[3]) {
  %m = gt(%x, 0.0)
  %v = masked_select(%x, %m)
  %s = add(%v, %y)
  return %s
}
---
# @find: s0 == x.size(0), s0 >= 2, x.stride(0) == 1, x.offset() == 0, u0 comes from nonzero, u0 >= 0
# @meet: s0 == x.size(0), s0 >= 2, x.stride(0) == 1, x.offset() == 0, s1 == y.size(0), s1 >= 2, y.stride(0) == 1, y.offset() == 0, u0 comes from masked_select, u0 >= 0, at run time u0 == s1 (add at unbacked.td:13)
func @find(%x: f32[s0]) {
  %1 = nonzero(%x) : i64[u0,1]{1,u0} @0
  %2 = select(%1, 1, 0) : i64[u0] @0
  %3 = index_select(%x, 0, %2) : f32[u0]
  return %3
}

func @meet(%x: f32[s0], %y: f32[s1]) {
  %2 = gt(%x, 0.0) : bool[s0]
  %3 = masked_select(%x, %2) : f32[u0]
  expect(u0, "==", s1, true)
  %4 = add(%3, %y) : f32[u0]
  return %4
}
