# run: infer mincut
# Two regions: the seam is kept, random numbers are drawn again, sizes handed over.
func @f(%x: f32[s0,s1], %w: f32[s1,s1] <param "w">, %t: f32[s0] <tangent 0>) {
  %r = rand_like(%x) : f32[s0,s1] must_recompute 1
  %m = mul(%x, %r) : f32[s0,s1] must_recompute 1
  %h = mm(%m, %w) : f32[s0,s1] must_recompute 1
  %a = tanh(%h) : f32[s0,s1] must_recompute 2
  %b = sin(%a) : f32[s0,s1] must_recompute 2
  %y = sum(%b, [1]) : f32[s0]
  %u = unsqueeze(%t, 1) : f32[s0,1] backward
  %e = expand(%u, [s0,s1]) : f32[s0,s1]{1,0} backward
  %c = cos(%a) : f32[s0,s1] backward
  %g1 = mul(%e, %c) : f32[s0,s1] backward
  %g2 = tanh_backward(%g1, %a) : f32[s0,s1] backward
  %mt = transpose(%m, 0, 1) : f32[s1,s0]{1,s1} backward
  %gw = mm(%mt, %g2) : f32[s1,s1] backward
  return %y, none <grad 0>, %gw <grad 1>
}
---
func @f_forward(%x: f32[s0,s1], %w: f32[s1,s1] <param "w">) {
  %2 = random_state() : i64[2]
  %r = rand_like(%x) : f32[s0,s1] must_recompute 1
  %m = mul(%x, %r) : f32[s0,s1] must_recompute 1
  %h = mm(%m, %w) : f32[s0,s1] must_recompute 1
  %a = tanh(%h) : f32[s0,s1] must_recompute 2
  %b = sin(%a) : f32[s0,s1] must_recompute 2
  %y = sum(%b, [1]) : f32[s0]
  return %y, %h <saved 1>, %2 <saved 2>
}
func @f_backward(
    %x: f32[s0,s1] <saved 0>,
    %h: f32[s0,s1] <saved 1>,
    %2: i64[2] <saved 2>,
    %t: f32[s0] <tangent 0>) {
  %u = unsqueeze(%t, 1) : f32[s0,1] backward
  %e = expand(%u, [s0,s1]) : f32[s0,s1]{1,0} backward
  %a = tanh(%h) : f32[s0,s1] must_recompute 2
  %c = cos(%a) : f32[s0,s1] backward
  %g1 = mul(%e, %c) : f32[s0,s1] backward
  %g2 = tanh_backward(%g1, %a) : f32[s0,s1] backward
  %10 = random_state(%2) : i64[2]
  %r = rand_like(%x) : f32[s0,s1] must_recompute 1
  random_state(%10) : i64[2]
  %m = mul(%x, %r) : f32[s0,s1] must_recompute 1
  %mt = transpose(%m, 0, 1) : f32[s1,s0]{1,s1} backward
  %gw = mm(%mt, %g2) : f32[s1,s1] backward
  return none <grad 0>, %gw <grad 1>
}
value   op              bytes              why
%x      input        16.0 KiB  saved       an input
%r      rand_like    16.0 KiB  recomputed  checkpoint region 1
%m      mul          16.0 KiB  recomputed  checkpoint region 1
%h      mm           16.0 KiB  saved       between two checkpoint regions
%a      tanh         16.0 KiB  recomputed  checkpoint region 2
saved 16.0 KiB of 16.0 KiB, peak 48.2 KiB of 48.2 KiB; recomputed: 3
random ops recomputed with the same numbers: 1
