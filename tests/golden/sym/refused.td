# run: dynamic
# How many results there are cannot depend on values.
func @refused(%x: f32[6]) {
  %i = nonzero(%x)
  %s = slice(%i, 0, 1, 3)
  %v = unbind(%i, 0)
  return %s
}
---
error: unbind: whether u0 == 0 is data-dependent, known only when the program runs; state what holds with td_expect(tensor, dim, ">=", number) before this op, or use a size that does not depend on data (refused.td:6)
