# a norm and its derivative, behind a product: from x0, which a residual reads there
# run: again dce
func @norm(%x: f32[512,1024] on cuda:0, %w: f32[1024] on cuda:0, %m: f32[1024,1024] on cuda:0) {
  %x0 = exp(%x) : f32[512,1024] on cuda:0
  %mean = mean(%x0, dim=[1], keepdim=true) : f32[512,1] on cuda:0
  %rstd = rsqrt(%mean) : f32[512,1] on cuda:0
  %d = sub(%x0, %mean) : f32[512,1024] on cuda:0
  %n = mul(%d, %rstd) : f32[512,1024] on cuda:0
  %y = mul(%n, %w) : f32[512,1024] on cuda:0
  %p = mm(%y, %m) : f32[512,1024] on cuda:0
  %r = add(%p, %x0) : f32[512,1024] on cuda:0
  %g = mul(%p, %n) : f32[512,1024] on cuda:0
  return %r, %g
}
---
func @norm(
    %x: f32[512,1024] on cuda:0,
    %w: f32[1024] on cuda:0,
    %m: f32[1024,1024] on cuda:0) {
  %x0 = exp(%x) : f32[512,1024] on cuda:0
  %mean = mean(%x0, [1], true) : f32[512,1] on cuda:0
  %rstd = rsqrt(%mean) : f32[512,1] on cuda:0
  %d = sub(%x0, %mean) : f32[512,1024] on cuda:0
  %n = mul(%d, %rstd) : f32[512,1024] on cuda:0
  %y = mul(%n, %w) : f32[512,1024] on cuda:0
  %p = mm(%y, %m) : f32[512,1024] on cuda:0
  %r = add(%p, %x0) : f32[512,1024] on cuda:0
  %11 = sub(%x0, %mean) : f32[512,1024] on cuda:0 again
  %12 = mul(%11, %rstd) : f32[512,1024] on cuda:0 again
  %g = mul(%p, %12) : f32[512,1024] on cuda:0
  return %r, %g
}
