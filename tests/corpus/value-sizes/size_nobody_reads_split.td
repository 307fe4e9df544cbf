# A size that is checked outlives the result that has it, where the program is partitioned.

func @f(%p2: f32[1,4]) {
  %v4 = nonzero(%p2)
  %v22 = unflatten(%v4, 0, [-1,1])
  %v23 = std(%p2, [1], true, true)
  return %v23
}
case "size nobody reads split" {
  %a1 = tensor([0, -1, 1, 1], f32, [1,4], requires_grad=true)
  call @f(%a1)
}
