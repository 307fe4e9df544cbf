# Versions of inner tensors count every write.

func @f(%p0) {
  mul_(%p0, 2)
  add_(%p0, 1)
  %v0 = clone(%p0)
  neg_(%v0)
  sin_(%v0)
  return %v0
}

case "merged writes count in inner tensors" {
  %a0 = randn([2], f32, seed=1)
  %a1 = randn([2], f32, seed=2)
  %a2 = _wrap([%a0, %a1], "fz_pair", "", [2], [], f32)
  call @f(%a2)
}
