# One leaf was read before the call and the other was not: their gradients have other sizes, and the calls need code of their own.

func @f(%p2) {
  no_grad {
    squeeze_(%p2)
  }
  %y = mul(%p2, 2.0)
  return %y
}
case "leaf without then with accumulator" {
  %a3 = full([1], 2, f32, requires_grad=true)
  call @f(%a3)
  backward
  no_grad {
    unsqueeze_(%a3, 0)
  }
  %a4 = mul(%a3, %a3)
  call @f(%a3)
  backward
}
case "other order" {
  %a3 = full([1], 2, f32, requires_grad=true)
  %b3 = full([1], 2, f32, requires_grad=true)
  %b4 = mul(%b3, %b3)
  call @f(%a3)
  backward
  call @f(%b3)
  backward
}
case "b first" {
  %a3 = full([1], 2, f32, requires_grad=true)
  %b3 = full([1], 2, f32, requires_grad=true)
  %b4 = mul(%b3, %b3)
  call @f(%b3)
  call @f(%a3)
  backward
}
