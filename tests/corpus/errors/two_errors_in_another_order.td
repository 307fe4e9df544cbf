# Eager fails at a class value; a trace, which sees no values, fails at dtypes that autocast made in a later op.

func @f(%p0) {
  %v1 = _classes(%p0) prefer_recompute 1
  %v3 = randint(0, 2, [2], bool)
  %v12 = randint(-2, 2, [2,2], f32)
  %v13 = bernoulli_p(%v12, 0.25)
  %v16 = tensor([2, 2, 1, 2], f32, [2,2])
  %v17 = mm(%v13, %v16)
  %v23 = _linear_scan(%v17, %v12, 0, true)
  return %v3
}
func @g(%q0: i64[1], %q1: bool[2]) {
  %u3 = randn([2,1], f32)
  %u4 = randint(-2, 2, [1], i64)
  copy_(%q0, %u4, true)
  return 
}
case "seed 91409566" {
  %a3 = randint(-2, 2, [2], i64, seed=67)
  %a4 = full([2], 0, bool)
  %a5 = masked_scatter_backward(%a3, %a4, [1])
  call @f(%a5)
  %y... = call @g(%a5, %out.0)
  call @f(%a5) autocast=f16
}
