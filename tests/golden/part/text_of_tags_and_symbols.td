# run: program
func @f(%x: f32[s0], %n: int=s1) {
  %a = sin(%x) : f32[s0] must_recompute 3
  %b = cos(%a) : f32[s0] must_save 0
  %c = exp(%b) : f32[s0] backward prefer_save 12 @"m.c":7 in "net/a"
  %d = expand(%c, [s1,s0]) : f32[s1,s0]{0,1} prefer_recompute 4
  return %d, s1
}
---
func @f(%x: f32[s0], %n: int=s1) {
  %a = sin(%x) : f32[s0] must_recompute 3
  %b = cos(%a) : f32[s0] must_save 0
  %c = exp(%b) : f32[s0] backward prefer_save 12
  %d = expand(%c, [s1,s0]) : f32[s1,s0]{0,1} prefer_recompute 4
  return %d, s1
}
