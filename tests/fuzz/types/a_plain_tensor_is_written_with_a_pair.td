# A write to a plain tensor with an argument of a type, whose result is plain.

func @f(%p0, %p1) {
  addcmul_(%p0, %p1, %p1, 2)
  return %p0
}

case "a plain tensor is written with a rounded one" {
  %a0 = randn([3,2], f32, seed=1)
  %a1 = randint(-3, 4, [3,2], f32, seed=3)
  %a2 = full([], 0.25, f32)
  %a3 = _wrap([%a1, %a2], "fz_rounded", "", [3,2], [], f32)
  call @f(%a0, %a3)
}
