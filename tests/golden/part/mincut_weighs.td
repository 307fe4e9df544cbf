# run: infer mincut
func @f(%x: f32[4,8], %w: f32[8,8] <param "w">, %t: f32[4,8] <tangent 0>) {
  %h = mm(%x, %w)
  %a = tanh(%h)
  %y = exp(%a)
  %g1 = mul(%t, %y) backward
  %g2 = tanh_backward(%g1, %a) backward
  %xt = transpose(%x, 0, 1) backward
  %gw = mm(%xt, %g2) backward
  return %y, %gw <grad 1>
}
---
func @f_forward(%x: f32[4,8], %w: f32[8,8] <param "w">) {
  %h = mm(%x, %w) : f32[4,8]
  %a = tanh(%h) : f32[4,8]
  %y = exp(%a) : f32[4,8]
  return %y, %h <saved 1>
}
func @f_backward(
    %x: f32[4,8] @0 <saved 0>,
    %h: f32[4,8] <saved 1>,
    %t: f32[4,8] <tangent 0>) {
  %a = tanh(%h) : f32[4,8]
  %y = exp(%a) : f32[4,8]
  %g1 = mul(%t, %y) : f32[4,8] backward
  %g2 = tanh_backward(%g1, %a) : f32[4,8] backward
  %xt = transpose(%x, 0, 1) : f32[8,4]{1,8} @0 backward
  %gw = mm(%xt, %g2) : f32[8,8] backward
  return %gw <grad 1>
}
value   op          bytes              why
%x      input       128 B  saved       an input
%h      mm          128 B  saved       heavy op
%a      tanh        128 B  recomputed  cheap: pointwise
%y      exp         128 B  recomputed  cheap: pointwise
saved 128 B of 256 B, peak 512 B of 512 B; recomputed: 2
