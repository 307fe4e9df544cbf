# The gradient of a leaf is the tangent itself: the leaf copies it, because the caller has it, too.

func @f(%p0) {
  %v13 = clone(%p0)
  %q = add(%p0, 2)
  return %q
}
case "a gradient that is the tangent" {
  %a6 = full([2,2], 1, f32)
  %a7 = full([2,2], 5, f32)
  %a8 = _wrap([%a6, %a7], "fz_pair", "", [2,2], [], f32, requires_grad=true)
  call @f(%a8) control=true
  %t = detach(%out.0)
  backward %out.0 with %t
    fill_(%out.0, 1)
}
