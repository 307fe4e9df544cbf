# Eager failed to lay the gradient of the base of a written view out, which is of a type, and traces to put the gradient of the view into it.

func @f(%p0: f32[1,2] of fz_pair("", f32[1,2], f32[1,2]) @0) {
  %v0, %v1, %v2, %v3 = _linalg_lstsq(%p0, %p0, 0.0, "gelsy")
  %v10 = dropout(%v0)
  %v16... = hsplit_indices(%v10, [2,2])
    %v19 = copy_(%v16.2, %v16.1, true)
  return %v16.2
}
case "seed 2300178238" {
  %a8 = randint(-2, 2, [1,2], f32,)
  %a9 = transpose(%a8, 0, 1)
  %a11 = transpose(%a9, 0, 1)
  %a12 = full([1,2], 2, f32)
  %a13 = _wrap([%a11, %a12], "fz_pair", "", [1,2], [], f32, requires_grad=true)
  call @f(%a13)
  backward
}
