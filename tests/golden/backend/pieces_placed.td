# loops store their pieces where the result has them; a cat of cats is one tensor, and its
# readers read slices; an argument is copied where the cat was
# run: infer pieces
func @f(%a: f32[2,8], %b: f32[2,8], %w: f32[16,16], %c: f32[2,16]) {
  %p = exp(%a)
  %q = mul(%p, %b)
  %s = cat([%p, %q], 1)
  %m = mm(%s, %w)
  %n = neg(%m)
  %y = cat([%s, %n, %c], 0)
  %z = mm(%y, %w)
  return %z, %y
}
---
func @f(%a: f32[2,8], %b: f32[2,8], %w: f32[16,16], %c: f32[2,16]) {
  %y = empty([6,16], f32) : f32[6,16] @0
  %p = exp(%a) : f32[2,8]
  %6 = slice(%y, 0, 0, 2) : f32[2,16] @0
  %7 = slice(%6, 1, 0, 8) : f32[2,8]{16,1} @0
  copy_(%7, %p) : f32[2,8]{16,1} @0
  %q = mul(%p, %b) : f32[2,8]
  %10 = slice(%y, 0, 0, 2) : f32[2,16] @0
  %11 = slice(%10, 1, 8, 16) : f32[2,8]{16,1}+8 @0
  copy_(%11, %q) : f32[2,8]{16,1}+8 @0
  %s = slice(%y, 0, 0, 2) : f32[2,16] @0
  %m = mm(%s, %w) : f32[2,16]
  %n = neg(%m) : f32[2,16]
  %16 = slice(%y, 0, 2, 4) : f32[2,16]+32 @0
  copy_(%16, %n) : f32[2,16]+32 @0
  %18 = slice(%y, 0, 4, 6) : f32[2,16]+64 @0
  copy_(%18, %c) : f32[2,16]+64 @0
  %z = mm(%y, %w) : f32[6,16]
  return %z, %y
}
