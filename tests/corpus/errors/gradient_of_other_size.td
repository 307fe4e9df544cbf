# A backward that fails although its gradient goes nowhere.

func @f(%p0: f32[6]) {
  no_grad {
      %v2 = randint(-3, 2, [6], f32)
      %v3 = view_as(%p0, %v2)
  }
  %v14 = normal(%v3)
  %v18 = randint(0, 6, [1], i64)
  %v19 = scatter(%v2, -1, %v18, %v14)
  return %v19
}
case "gradient of other size" {
  %a1 = full([3,2], 0, f32, requires_grad=true)
  %a2 = reshape(%a1, [-1])
  call @f(%a2)
  backward
}
