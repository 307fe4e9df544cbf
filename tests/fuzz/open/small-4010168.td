# seed 4010168: functional: line 11: works, functional fails: masked_scatter_: mask bool[0,1] does not broadcast with self i64[u0,2]

func @f(%p0: i64[2,2]) {
  %v7 = nonzero(%p0)
    %v9 = randint(0, 2, [0,1], bool)
    %v10 = randint(-3, 2, [0], i64)
    masked_scatter_(%v7, %v9, %v10)
  return 
}
case "seed 4010168" {
  %a0 = tensor([1, 2, 1, 0], i64, [2,2])
    floor_divide_(%a0, 3)
  call @f(%a0)
}
