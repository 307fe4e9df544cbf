# an op that refuses its constants refuses at run time; large ones are not computed
# run: infer fold
func @f(%x: f32[3]) {
  %c = tensor([7], i64)
  %y = index_select(%x, 0, %c)
  %t = tensor([1.0, 2.0], f32)
  %z = index_select(%t, 0, %c)
  %o = ones([100000])
  %p = neg(%o)
  return %y, %z, %p
}
---
func @f(%x: f32[3]) {
  %c = tensor([7], i64, [1])
  %t = tensor([1.0, 2.0], f32, [2])
  %y = index_select(%x, 0, %c) : f32[1]
  %z = index_select(%t, 0, %c) : f32[1]
  %o = ones([100000]) : f32[100000]
  %p = neg(%o) : f32[100000]
  return %y, %z, %p
}
