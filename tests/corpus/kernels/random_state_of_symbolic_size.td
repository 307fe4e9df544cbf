# random_state has two elements, also if sizes are symbolic.

func @f(%p0: i64[2] @0) {
  %v7 = random_state(%p0)
  return 
}
case "seed 130001418" {
  %a1 = tensor([2, 2], i64, [2])
  call @f(%a1)
}
