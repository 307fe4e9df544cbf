# sizes of sizes are one step, and back to the start is none
# run: infer views dce
func @f(%x: f32[4,3]) {
  %a = view(%x, [2,6])
  %b = view(%a, [12])
  %c = unsqueeze(%b, 0)
  %d = view(%c, [4,3])
  %y = exp(%b)
  %z = exp(%d)
  %s = squeeze(%c)
  %w = exp(%s)
  return %y, %z, %w
}
---
func @f(%x: f32[4,3] @0) {
  %b = view(%x, [12]) : f32[12] @0
  %y = exp(%b) : f32[12]
  %z = exp(%x) : f32[4,3]
  %s = view(%x, [12]) : f32[12] @0
  %w = exp(%s) : f32[12]
  return %y, %z, %w
}
