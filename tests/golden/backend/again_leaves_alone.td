# x0 is not stored: nobody reads it behind the product; a value that has to be computed
# by a function; an input, which may be written by then; a value of few bytes; the CPU
# run: again dce
func @gone(%x: f32[512,1024] on cuda:0, %w: f32[1024] on cuda:0, %m: f32[1024,1024] on cuda:0) {
  %x0 = exp(%x) : f32[512,1024] on cuda:0
  %mean = mean(%x0, dim=[1], keepdim=true) : f32[512,1] on cuda:0
  %rstd = rsqrt(%mean) : f32[512,1] on cuda:0
  %d = sub(%x0, %mean) : f32[512,1024] on cuda:0
  %n = mul(%d, %rstd) : f32[512,1024] on cuda:0
  %y = mul(%n, %w) : f32[512,1024] on cuda:0
  %p = mm(%y, %m) : f32[512,1024] on cuda:0
  %g = mul(%p, %n) : f32[512,1024] on cuda:0
  return %g
}
func @slow(%x: f32[512,1024] on cuda:0, %w: f32[1024] on cuda:0, %m: f32[1024,1024] on cuda:0) {
  %x0 = exp(%x) : f32[512,1024] on cuda:0
  %mean = mean(%x0, dim=[1], keepdim=true) : f32[512,1] on cuda:0
  %rstd = rsqrt(%mean) : f32[512,1] on cuda:0
  %d = sub(%x0, %mean) : f32[512,1024] on cuda:0
  %n = div(%d, %rstd) : f32[512,1024] on cuda:0
  %y = mul(%n, %w) : f32[512,1024] on cuda:0
  %p = mm(%y, %m) : f32[512,1024] on cuda:0
  %r = add(%p, %x0) : f32[512,1024] on cuda:0
  %g = mul(%p, %n) : f32[512,1024] on cuda:0
  return %r, %g
}
func @input(%x: f32[512,1024] on cuda:0, %w: f32[1024] on cuda:0, %m: f32[1024,1024] on cuda:0) {
  %unused = exp(%x) : f32[512,1024] on cuda:0
  %mean = mean(%x, dim=[1], keepdim=true) : f32[512,1] on cuda:0
  %rstd = rsqrt(%mean) : f32[512,1] on cuda:0
  %d = sub(%x, %mean) : f32[512,1024] on cuda:0
  %n = mul(%d, %rstd) : f32[512,1024] on cuda:0
  %y = mul(%n, %w) : f32[512,1024] on cuda:0
  %p = mm(%y, %m) : f32[512,1024] on cuda:0
  %r = add(%p, %x) : f32[512,1024] on cuda:0
  %g = mul(%p, %n) : f32[512,1024] on cuda:0
  return %r, %g
}
func @small(%x: f32[8,1024] on cuda:0, %w: f32[1024] on cuda:0, %m: f32[1024,1024] on cuda:0) {
  %x0 = exp(%x) : f32[8,1024] on cuda:0
  %mean = mean(%x0, dim=[1], keepdim=true) : f32[8,1] on cuda:0
  %rstd = rsqrt(%mean) : f32[8,1] on cuda:0
  %d = sub(%x0, %mean) : f32[8,1024] on cuda:0
  %n = mul(%d, %rstd) : f32[8,1024] on cuda:0
  %y = mul(%n, %w) : f32[8,1024] on cuda:0
  %p = mm(%y, %m) : f32[8,1024] on cuda:0
  %r = add(%p, %x0) : f32[8,1024] on cuda:0
  %g = mul(%p, %n) : f32[8,1024] on cuda:0
  return %r, %g
}
func @cpu(%x: f32[512,1024], %w: f32[1024], %m: f32[1024,1024]) {
  %x0 = exp(%x) : f32[512,1024]
  %mean = mean(%x0, dim=[1], keepdim=true) : f32[512,1]
  %rstd = rsqrt(%mean) : f32[512,1]
  %d = sub(%x0, %mean) : f32[512,1024]
  %n = mul(%d, %rstd) : f32[512,1024]
  %y = mul(%n, %w) : f32[512,1024]
  %p = mm(%y, %m) : f32[512,1024]
  %r = add(%p, %x0) : f32[512,1024]
  %g = mul(%p, %n) : f32[512,1024]
  return %r, %g
}
---
func @gone(
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
  %g = mul(%p, %n) : f32[512,1024] on cuda:0
  return %g
}

func @slow(
    %x: f32[512,1024] on cuda:0,
    %w: f32[1024] on cuda:0,
    %m: f32[1024,1024] on cuda:0) {
  %x0 = exp(%x) : f32[512,1024] on cuda:0
  %mean = mean(%x0, [1], true) : f32[512,1] on cuda:0
  %rstd = rsqrt(%mean) : f32[512,1] on cuda:0
  %d = sub(%x0, %mean) : f32[512,1024] on cuda:0
  %n = div(%d, %rstd) : f32[512,1024] on cuda:0
  %y = mul(%n, %w) : f32[512,1024] on cuda:0
  %p = mm(%y, %m) : f32[512,1024] on cuda:0
  %r = add(%p, %x0) : f32[512,1024] on cuda:0
  %g = mul(%p, %n) : f32[512,1024] on cuda:0
  return %r, %g
}

func @input(
    %x: f32[512,1024] on cuda:0,
    %w: f32[1024] on cuda:0,
    %m: f32[1024,1024] on cuda:0) {
  %mean = mean(%x, [1], true) : f32[512,1] on cuda:0
  %rstd = rsqrt(%mean) : f32[512,1] on cuda:0
  %d = sub(%x, %mean) : f32[512,1024] on cuda:0
  %n = mul(%d, %rstd) : f32[512,1024] on cuda:0
  %y = mul(%n, %w) : f32[512,1024] on cuda:0
  %p = mm(%y, %m) : f32[512,1024] on cuda:0
  %r = add(%p, %x) : f32[512,1024] on cuda:0
  %g = mul(%p, %n) : f32[512,1024] on cuda:0
  return %r, %g
}

func @small(
    %x: f32[8,1024] on cuda:0,
    %w: f32[1024] on cuda:0,
    %m: f32[1024,1024] on cuda:0) {
  %x0 = exp(%x) : f32[8,1024] on cuda:0
  %mean = mean(%x0, [1], true) : f32[8,1] on cuda:0
  %rstd = rsqrt(%mean) : f32[8,1] on cuda:0
  %d = sub(%x0, %mean) : f32[8,1024] on cuda:0
  %n = mul(%d, %rstd) : f32[8,1024] on cuda:0
  %y = mul(%n, %w) : f32[8,1024] on cuda:0
  %p = mm(%y, %m) : f32[8,1024] on cuda:0
  %r = add(%p, %x0) : f32[8,1024] on cuda:0
  %g = mul(%p, %n) : f32[8,1024] on cuda:0
  return %r, %g
}

func @cpu(%x: f32[512,1024], %w: f32[1024], %m: f32[1024,1024]) {
  %x0 = exp(%x) : f32[512,1024]
  %mean = mean(%x0, [1], true) : f32[512,1]
  %rstd = rsqrt(%mean) : f32[512,1]
  %d = sub(%x0, %mean) : f32[512,1024]
  %n = mul(%d, %rstd) : f32[512,1024]
  %y = mul(%n, %w) : f32[512,1024]
  %p = mm(%y, %m) : f32[512,1024]
  %r = add(%p, %x0) : f32[512,1024]
  %g = mul(%p, %n) : f32[512,1024]
  return %r, %g
}
