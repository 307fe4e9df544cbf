# seed 30362755: compiled: line 12: both fail: remainder_: integer division by zero; compiled: ge_: result of size [1] does not fit the written tensor i8[]

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
