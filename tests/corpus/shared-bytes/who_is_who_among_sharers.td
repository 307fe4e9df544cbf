# One tensor is passed twice, then once as an alias, beside one that shares its bytes.

func @f(%p0: f16[6] @0, %p1: f32[3] @0, %p2: f32[3] @0) {
  return %p2
}
case "seed 118" {
  %a1 = tensor([-1, 1, 1], f32, [3])
  %a3 = view_dtype(%a1, f16)
  call @f(%a3, %a1, %a1)
no_grad {
}
  %b1 = alias(%a1)
  call @f(%a3, %b1, %a1)
}
