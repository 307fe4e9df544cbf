# A tensor of the program is written, becomes a leaf and is cloned.

func @f() {
  %v2 = tensor([0, 2], f32, [2])
  %v4 = relu6_(%v2)
  requires_grad_(%v4, true)
  %v18 = clone(%v4, true)
  return  %v18
}
case "constant that becomes a leaf" {
  call @f()
}
