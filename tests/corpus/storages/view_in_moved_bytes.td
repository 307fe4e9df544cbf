# A view has elements that its base, set to another storage, does not have.

func @f(%p1: i64[1] @0) {
  %v2 = randint(-1, 1, [1,1], i64)
  %v3 = set_(%p1, %v2, 1, [1], [2])
  %v5 = movedim(%p1, [0], [0])
  %v9 = as_strided_(%v5, [1], [1], 0)
  return %v9
}
case "view in moved bytes" {
  %a1 = randint(-1, 1, [1], i64)
  call @f(%a1)
}
