# Eager fails at a division by zero, a trace at a later write whose sizes do not fit.

func @f(%p0) {
  %v3 = tensor([-1], i8, [1])
  %v4 = remainder_(%p0, %v3)
  %v9 = randint(0, 1, [1], i64)
  %v10 = ge_(%v3, %v9)
  %v14 = squeeze_dims_(%v3, [0])
  return 
}
case "seed 30362755" {
  %a0 = randint(-1, 1, [1], i8,)
  call @f(%a0)
  call @f(%a0)
}
