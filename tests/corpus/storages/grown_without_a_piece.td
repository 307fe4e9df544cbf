# A storage grows by a view, and no piece of it is known.
func @f(%p0: u8[3,3,3,3], %p1: u8[3,3], %p2: u8[3,3]) {
  set_(%p0, %p1, 2, [3,3,3,3], none)
  %v1 = randint(0, 3, [3,3], i64)
  scatter_add_(%p2, -1, %v1, %p1)
  %v4 = mm(%p1, %p2)
  %v5 = randn([3,3], f32)
  %v6 = mish_(%v5)
  return %v1, %v6, %v4
}

case "seed 67002452" {
  %a0 = full([3,3,3,3], 1, i64)
  %a1 = randint(-3, 4, [4,3,2], f32, seed=70)
  %a2 = permute(%a0, [2,1,-4,3])
  %a4 = log_softmax(%a0, 0, f64)
  %a6 = randint(0, 4, [3,3], u8, seed=7)
  %a7 = expand_as(%a6, %a4)
  call @f(%a7, %a6, %a6)
  call @f(%a7, %a6, %a6)
}
