# x has other dims behind t_, so what looks like undoing a transpose is none
# run: infer views dce
func @f(%x: f32[4,3]) {
  %w = mul_(%x, 2.0)
  t_(%w)
  %a = transpose(%x, 0, 1)
  %y = exp(%a)
  return %y
}
---
func @f(%x: f32[4,3] @0) {
  %w = mul_(%x, 2.0) : f32[4,3] @0
  t_(%w) : f32[3,4]{1,3} @0
  %a = transpose(%x, 0, 1) : f32[4,3] @0
  %y = exp(%a) : f32[4,3]
  return %y
}
