# transposing twice is nothing, dims of dims are one permute
# run: infer views dce
func @f(%x: f32[2,3,4]) {
  %a = transpose(%x, 0, 1)
  %b = transpose(%a, 1, 0)
  %c = permute(%a, [2,0,1])
  %d = transpose(%c, -1, 0)
  %y = exp(%b)
  return %y, %c, %d
}
---
func @f(%x: f32[2,3,4] @0) {
  %c = permute(%x, [2,1,0]) : f32[4,3,2]{1,4,12} @0
  %d = alias(%x) : f32[2,3,4] @0
  %y = exp(%x) : f32[2,3,4]
  return %y, %c, %d
}
