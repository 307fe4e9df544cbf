# One of several views whose base shows other elements now.

func @f() {
  %v1 = randint(-2, 2, [2], i64)
  %v2... = split(%v1, 2, 0)
  set_(%v1, %v2.0, 2, [2], [2])
  %v7 = randint(0, 2, [2], bool)
  %v8 = randint(-2, 2, [2], i64)
  masked_scatter_(%v1, %v7, %v8)
  return %v2.0
}
case "base of several views moved by set" {
  call @f()
}
