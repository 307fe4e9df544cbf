# a chain that no single view can show stays a chain
# run: infer views dce
func @f(%x: f32[4,3]{1,4}) {
  %a = view(%x, [2,2,3])
  %b = view(%a, [4,1,3])
  %c = expand(%b, [4,5,3])
  %d = expand(%c, [2,4,5,3])
  return %b, %d
}
---
func @f(%x: f32[4,3]{1,4} @0) {
  %b = view(%x, [4,1,3]) : f32[4,1,3]{1,12,4} @0
  %d = expand(%b, [2,4,5,3]) : f32[2,4,5,3]{0,1,0,4} @0
  return %b, %d
}
