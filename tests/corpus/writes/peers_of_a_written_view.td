# Recomputing one of several views of a tensor does not change the view that was written.

func @f(%p0: bool[] @0) {
    %v3 = tensor([2, 1, 3, 1, 0, 3, 3, 0, 1], f32, [3,3])
    %v5... = split_with_sizes(%v3, [1,2], -2)
  remainder_(%v5.1, %v5.1)
  %v7 = linear(%v5.1, %v5.0, none)
  %v9 = randint(0, 2, [], bool)
  bitwise_left_shift(%p0, %v9)
  return
}
case "peers of a written view" {
  %a0 = randint(0, 2, [3], bool)
  %a3 = select(%a0, 0, 0)
  call @f(%a3)
}
