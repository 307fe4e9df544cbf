# A write to an inner tensor that another argument has was refused.

func @f(%x: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]), %y: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]), %a: f32[2,3]) {
  mul_(%x, 2.0)
  %s = add(%y, 1.0)
  add_(%a, %a)
  %t = mul(%x, %y)
  neg_(%y)
  %u = add(%a, 1.0)
  %v = add(%x, 0.5)
  return %s, %t, %u, %v
}
func @g(%x: f32[2,2] of fz_pair("", f32[2,2], f32[2,2]), %y: f32[2,2] of fz_pair("", f32[2,2], f32[2,2]), %a: f32[2,3]) {
  mul_(%x, 2.0)
  %s = add(%y, 1.0)
  add_(%a, %a)
  %t = mul(%x, %y)
  neg_(%y)
  %u = add(%a, 1.0)
  %v = add(%x, 0.5)
  return %s, %t, %u, %v
}
func @h(%x: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]), %y: f32[2,3] of fz_pair("", f32[2,3], f32[2,3]), %w: f32[2,3] grad) {
  %k = clone(%y)
  mul_(%x, 2.0)
  %s = mul(%w, %k)
  %t = add(%s, %y)
  return %s, %t
}
case "two pairs and a plain tensor share" {
  %a = randn([2,3], f32, seed=1)
  %b = randn([2,3], f32, seed=2)
  %c = randn([2,3], f32, seed=3)
  %x = _wrap([%a, %b], "fz_pair", "", [2,3], [], f32)
  %y = _wrap([%c, %a], "fz_pair", "", [2,3], [], f32)
  call @f(%x, %y, %a)
}
case "a view of the plain tensor" {
  %a = randn([2,3], f32, seed=1)
  %b = randn([2,2], f32, seed=2)
  %c = randn([2,2], f32, seed=3)
  %v = slice(%a, 1, 0, 2)
  %x = _wrap([%v, %b], "fz_pair", "", [2,2], [], f32)
  %y = _wrap([%c, %v], "fz_pair", "", [2,2], [], f32)
  call @g(%x, %y, %a)
}
case "with gradients beside" {
  %a = randn([2,3], f32, seed=1)
  %b = randn([2,3], f32, seed=2)
  %c = randn([2,3], f32, seed=3)
  %w = randn([2,3], f32, seed=4, requires_grad=true)
  %x = _wrap([%a, %b], "fz_pair", "", [2,3], [], f32)
  %y = _wrap([%c, %a], "fz_pair", "", [2,3], [], f32)
  call @h(%x, %y, %w)
  backward
}
