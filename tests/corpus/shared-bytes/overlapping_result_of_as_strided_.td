# A result whose elements overlap is written later: each address gets its gradient once.

func @f(%p1: f32[2,2,2,2]) {
  %v4 = gelu_erf_backward(%p1, %p1)
  %v11 = as_strided_(%v4, [2,2,2,2], [0,1,2,2])
  return %v11
}
case "an overlapping result of as_strided_" {
  %a2 = randint(-2, 2, [2,2,2,2], f32, seed=64, requires_grad=true)
  call @f(%a2)
  backward
}
