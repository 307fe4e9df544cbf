# The gradient has the sizes that the leaf had when it was read.

func @f(%p1: f64[3,3], %p3: f32[3,3]) {
  no_grad {
    unsqueeze_(%p3, -2)
  }
  return %p1
}
case "gradient of a reshaped leaf" {
  %a1 = tensor([3, 0, -1, 1, 2, 0, -2, 1, 1], f32, [3,3], requires_grad=true)
  %a2 = movedim(%a1, [0,1], [0,-1])
  %a3 = to(%a2, f64, false)
  call @f(%a3, %a1)
  backward
}
