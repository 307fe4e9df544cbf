# A plain gradient with other strides became the .grad of a leaf of a type as it was.

func @f(%p0: f32[3,3]{1,3} of fz_diag("", f32[3]) @0, %p1: f32[3,3]{1,3} of fz_diag("", f32[3]) @0, %p2: f32[3,1] of fz_rounded("m", f32[3,1], f32[]) @1, %p3: f32[3,3] of fz_diag("", f32[3]) @0, %p4: f32[1,3] @2) {
  %v2 = logit(%p1, none)
  return %v2
}
case "seed 950020083" {
  %a1 = randint(-3, 2, [1,3], f32,)
  %a2 = randint(-3, 2, [3], f32,)
  %a3 = _wrap([%a2], "fz_diag", "", [3,3], [], f32, requires_grad=true)
  %a4 = full([3,1], 1, f32)
  %a5 = full([], 0.25, f32)
  %a6 = _wrap([%a4, %a5], "fz_rounded", "m", [3,1], [], f32)
  %a8 = t(%a3)
  call @f(%a8, %a8, %a6, %a3, %a1)
  %s = randn([3,6], f32,)
  %t = slice(%s, -1, 0, 6, 2)
  backward %out.0 with %t
}
