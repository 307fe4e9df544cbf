# cats of what calls compute; of what is written; a cat that is a
# result, that is viewed, or that would have gaps inside another one is a tensor of its own
# run: infer pieces
func @f(%a: f32[2,8], %w: f32[8,8], %c: f32[2,16]) {
  %m = mm(%a, %w)
  %calls = cat([%m, %m, %a], 1)
  %p = exp(%a)
  fill_(%p, 0.0)
  %written = cat([%p, %p], 1)
  %q = sin(%a)
  %result = cat([%q, %q], 1)
  %viewed = cat([%q, %q], 1)
  %v = t(%viewed)
  %x = mm(%v, %a)
  %outer = cat([%result, %viewed], 0)
  %gaps = cat([%q, %q], 0)
  %n = neg(%c)
  %o = exp(%c)
  %r = cat([%n, %o], 0)
  %wide = cat([%gaps, %r], 1)
  return %calls, %written, %result, %x, %outer, %wide
}
---
func @f(%a: f32[2,8], %w: f32[8,8], %c: f32[2,16]) {
  %m = mm(%a, %w) : f32[2,8]
  %calls = cat([%m, %m, %a], 1) : f32[2,24]
  %p = exp(%a) : f32[2,8] @0
  fill_(%p, 0.0) : f32[2,8] @0
  %written = cat([%p, %p], 1) : f32[2,16]
  %gaps = empty([4,8], f32) : f32[4,8] @1
  %viewed = empty([2,16], f32) : f32[2,16] @2
  %result = empty([2,16], f32) : f32[2,16] @3
  %q = sin(%a) : f32[2,8]
  %12 = slice(%gaps, 0, 0, 2) : f32[2,8] @1
  copy_(%12, %q) : f32[2,8] @1
  %14 = slice(%gaps, 0, 2, 4) : f32[2,8]+16 @1
  copy_(%14, %q) : f32[2,8]+16 @1
  %16 = slice(%viewed, 1, 0, 8) : f32[2,8]{16,1} @2
  copy_(%16, %q) : f32[2,8]{16,1} @2
  %18 = slice(%viewed, 1, 8, 16) : f32[2,8]{16,1}+8 @2
  copy_(%18, %q) : f32[2,8]{16,1}+8 @2
  %20 = slice(%result, 1, 0, 8) : f32[2,8]{16,1} @3
  copy_(%20, %q) : f32[2,8]{16,1} @3
  %22 = slice(%result, 1, 8, 16) : f32[2,8]{16,1}+8 @3
  copy_(%22, %q) : f32[2,8]{16,1}+8 @3
  %v = t(%viewed) : f32[16,2]{1,16} @2
  %x = mm(%v, %a) : f32[16,8]
  %outer = cat([%result, %viewed]) : f32[4,16]
  %r = empty([4,16], f32) : f32[4,16] @4
  %n = neg(%c) : f32[2,16]
  %29 = slice(%r, 0, 0, 2) : f32[2,16] @4
  copy_(%29, %n) : f32[2,16] @4
  %o = exp(%c) : f32[2,16]
  %32 = slice(%r, 0, 2, 4) : f32[2,16]+32 @4
  copy_(%32, %o) : f32[2,16]+32 @4
  %wide = cat([%gaps, %r], 1) : f32[4,24]
  return %calls, %written, %result, %x, %outer, %wide
}
