# A policy asks to save a view of an inner tensor: the tensor that it belongs to is saved.

func @f(%p: f32[3,2] of fz_pair("", f32[3,2], f32[3,2])) {
  %v = t(%p) must_save 1
  %u = mul(%v, %v) must_save 1
  %w = mul(%p, %p)
  return %u, %w
}
case "the view of an argument" {
  %a = randint(-3, 1, [3,2], f32, seed=1)
  %b = full([3,2], 1, f32)
  %p = _wrap([%a, %b], "fz_pair", "", [3,2], [], f32, requires_grad=true)
  call @f(%p)
  backward
}
