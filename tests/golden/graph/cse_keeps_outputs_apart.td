# the caller may write one output: they stay two tensors; one inner use merges
# run: cse
func @f(%x: f32[2]) {
  %a = neg(%x)
  %b = neg(%x)
  %v = view(%b, [1,2])
  %c = neg(%x)
  %d = exp(%c)
  %p = view(%x, [2,1])
  %q = view(%x, [2,1])
  return %a, %v, %d, %p, %q
}
---
func @f(%x: f32[2]) {
  %a = neg(%x)
  %b = neg(%x)
  %v = view(%b, [1,2])
  %d = exp(%a)
  %p = view(%x, [2,1])
  %q = view(%x, [2,1])
  return %a, %v, %d, %p, %q
}
