# A view of a detached input: the input keeps its version.

func @f(%p0: i64[1]) {
  %v4 = detach(%p0)
  %v6 = unflatten(%v4, 0, [1])
  return %v6
}

case "seed 100034" {
  %a2 = randint(0, 1, [1], i64)
  call @f(%a2)
  fill_(%a2, 1)
  call @f(%a2)
}
