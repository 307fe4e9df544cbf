# A copy has offset 0.

func @f() {
  %v9 = randint(-2, 2, [2,2], i16)
  %v11... = unbind(%v9)
  %v12 = clone(%v11.1, true)
  %v16 = slice(%v12, -1, 1, 2, 1)
  return %v12, %v16
}
case "copy of piece" {
  call @f()
}
