# run: dynamic
# Sizes are symbols; only what an op asks of them becomes a guard.
func @reshape(%x: f32[4,6], %y: f32[4,6]) {
  %a = reshape(%x, [-1])
  %b = view(%y, [2,-1])
  %c = cat([%x, %y])
  return %a, %b, %c
}

func @write(%x: f32[4,6]) {
  %s = select(%x, 0, 1)
  mul_(%s, 2.0)
  %t = transpose(%x, 0, 1)
  add_(%t, 1.0)
  return %t
}

func @broadcast(%x: f32[4,6], %row: f32[6], %one: f32[4,1]) {
  %a = add(%x, %row)
  %b = mul(%a, %one)
  %e = expand(%one, [4,6])
  %m = matmul(%b, %row)
  return %b, %e, %m
}
---
# @reshape: s0 == x.size(0), s0 >= 2, s1 == x.size(1), s1 >= 2, x.stride(1) == 1, x.stride(0) == s1, x.offset() == 0, y.size(0) == s0, y.size(1) == s1, y.stride(1) == 1, y.stride(0) == s1, y.offset() == 0, (s0*s1) % 2 == 0 (view at views.td:5)
# @write: s0 == x.size(0), s0 >= 2, s1 == x.size(1), s1 >= 2, x.stride(1) == 1, x.stride(0) == s1, x.offset() == 0
# @broadcast: s0 == x.size(0), s0 >= 2, s1 == x.size(1), s1 >= 2, x.stride(1) == 1, x.stride(0) == s1, x.offset() == 0, row.size(0) == s1, row.stride(0) == 1, row.offset() == 0, one.size(0) == s0, one.size(1) == 1, one.stride(1) == 1, one.stride(0) == 1, one.offset() == 0, 4 == s0 (expand at views.td:21)
func @reshape(%x: f32[s0,s1], %y: f32[s0,s1]) {
  %2 = cat([%x, %y]) : f32[s0*2,s1]
  return %2
}

func @write(%x: f32[s0,s1] @0) {
  %1 = select(%x, 0, 1) : f32[s1]+s1 @0
  %2 = mul(%1, 2.0) : f32[s1]
  %3 = select_scatter(%x, %2, 0, 1) : f32[s0,s1] @1
  %4 = transpose(%3, 0, 1) : f32[s1,s0]{1,s1} @1
  %5 = add(%4, 1.0) : f32[s1,s0]{1,s1} @2
  %6 = transpose(%5, 0, 1) : f32[s0,s1] @2
  return %6 <update 0>
}

func @broadcast(%x: f32[s0,s1], %row: f32[s1], %one: f32[s0,1]) {
  %3 = add(%x, %row) : f32[s0,s1]
  %4 = mul(%3, %one) : f32[s0,s1]
  %5 = mv(%4, %row) : f32[s0]
  return %4, %5
}
