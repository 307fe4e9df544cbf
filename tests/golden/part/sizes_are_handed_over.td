# run: mincut
func @f(%x: f32[s0,s1], %t: f32[s0] <tangent 0>) {
  %y = sum(%x, [1]) : f32[s0]
  %u = unsqueeze(%t, 1) : f32[s0,1] backward
  %g = expand(%u, [s0,s1]) : f32[s0,s1]{1,0} backward
  return %y, %g <grad 0>
}
---
func @f_forward(%x: f32[s0,s1]) {
  %y = sum(%x, [1]) : f32[s0]
  return %y, s1 <saved 0>
}
func @f_backward(%0: int=s1 <saved 0>, %t: f32[s0] <tangent 0>) {
  %u = unsqueeze(%t, 1) : f32[s0,1] backward
  %g = expand(%u, [s0,s1]) : f32[s0,s1]{1,0} backward
  return %g <grad 0>
}
value   op       bytes              why
saved 0 B of 0 B, peak 256 B of 256 B; recomputed: 0
sizes passed to backward: 1
