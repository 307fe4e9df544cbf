# The layout of what an index with other strides picks, where the last dim has size 1: as for sizes that are numbers.

func @f(%table: i64[4,3], %x: f16[2,2,1]) {
  %y = index(%x, [%table])
  return %y
}

func @g(%table: i64[4,3], %x: f16[1,2,2]) {
  %y = index(%x, [none, %table])
  return %y
}

case "behind the index" {
  %rows = tensor([0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0], i64, [3,4])
  %table = transpose(%rows, 0, 1)
  %x = randint(-3, 4, [2,2,1], f16, seed=67)
  call @f(%table, %x)
}

case "in front of it" {
  %rows = tensor([0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0], i64, [3,4])
  %table = transpose(%rows, 0, 1)
  %x = randint(-3, 4, [1,2,2], f16, seed=67)
  call @g(%table, %x)
}
