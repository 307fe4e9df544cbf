# The copy of the inner tensor's storage, which the result shared, was taken for one that backward alone needs: the
# result of a type was not followed to its inner tensors, and changed with the write.

func @g(%q0: f32[1,3] of fz_pair("", f32[1,3], f32[1,3])) {
  %u0 = as_strided_copy(%q0, [3], [1])
  lerp_(%q0, %q0, false)
  return %u0
}

case "a result of a written pair, as_strided" {
  %a1 = tensor([1, 2, 3], f32, [1,3])
  %a2 = tensor([-1, -1, -1], f32, [1,3])
  %a3 = _wrap([%a1, %a2], "fz_pair", "", [1,3], [], f32)
  %y... = call @g(%a3)
}
