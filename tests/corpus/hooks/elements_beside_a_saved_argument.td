# Refused: a hook saves a clone of an argument, and the backward reads elements beside it by as_strided.

func @f(%p0: f32[1]) {
  %v3 = as_strided(%p0, [2], [1], 2)
  %v4 = flip(%v3, [0])
  %v7 = dot(%v3, %v4)
  return %v7
}
case "the gradient of one element is another element" {
  %a0 = tensor([1, 2, 3, 4], f32, [4], requires_grad=true)
  %a3 = narrow(%a0, 0, 3, 1)
  call @f(%a3) hooks=clone
  backward
}
