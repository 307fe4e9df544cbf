# A backward that fails because of values, although its gradient goes nowhere.

func @f(%p1) {
  no_grad {
    %v1 = slice(%p1)
  }
  %v7 = unsqueeze(%v1, 1)
  %v9 = randint(0, 2, [3,1,3,3], bool)
  %v10 = masked_scatter_backward(%v7, %v9, [1,3,3])
  return %v10
}
case "gradient fails by values" {
  %a2 = full([3,3,3], 2, f32, requires_grad=true)
  call @f(%a2)
  backward
}
