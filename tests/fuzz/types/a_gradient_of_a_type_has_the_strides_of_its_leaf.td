# The .grad of a leaf of a type has the strides of the leaf, whatever layout the tangent has.

func @f(%p0: f32[3,3] of fz_pair("m", f32[3,3], f32[3,3]) @0) {
  %v0 = transpose(%p0, -2, -1)
  %v12 = reciprocal(%v0)
  %v13... = unbind(%v12, -2)
  return %v13.2
}
case "seed 1300013954" {
  %a4 = full([3,3], 1, f32)
  %a5 = tensor([2, 3, -2, 1, 3, -2, 1, -2, 0], f32, [3,3])
  %a6 = _wrap([%a4, %a5], "fz_pair", "m", [3,3], [], f32, requires_grad=true)
  call @f(%a6)
  backward
}
