# pack gave a row-major tensor for a transposed one; the layout was copied into a plain tensor.

func @f(%p0) {
  %v0 = mul_(%p0, 2)
  %v5 = _inner(%v0, 1)
  return 
}
case "c" {
  %a1 = randint(-2, 2, [2,2], f32,)
  %a2 = full([], 0.25, f32)
  %a3 = _wrap([%a1, %a2], "fz_rounded", "", [2,2], [], f32)
  transpose_(%a3, 0, 1)
  call @f(%a3)
}
