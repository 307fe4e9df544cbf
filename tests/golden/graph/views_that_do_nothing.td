# one that is returned stays a tensor of its own
# run: infer views dce
func @f(%x: f32[2,3]) {
  %a = slice(%x, 0)
  %b = expand(%x, [2,-1])
  %c = permute(%a, [0,1])
  %d = alias(%c)
  %e = view(%b, [2,3])
  %y = exp(%d)
  return %y, %e
}
---
func @f(%x: f32[2,3] @0) {
  %e = alias(%x) : f32[2,3] @0
  %y = exp(%x) : f32[2,3]
  return %y, %e
}
