# Eager stops at the index, a trace at the sizes: each at the first mistake it can see.

func @f(%p1: i64[2,2]) {
  %v1 = tensor([-1, 1, -2, 2, 0, 0, 2, -2], f32, [2,4])
  %v10 = scatter_value(%v1, 0, %p1, -2)
  %v20 = randint(0, 2, [2], i64)
  %v21 = kl_div(%v10, %v20, "sum")
  return
}
case "a mistake of values, then one of shapes" {
  %a1 = tensor([0, 1, 3, 0], i64, [2,2])
  call @f(%a1)
}
