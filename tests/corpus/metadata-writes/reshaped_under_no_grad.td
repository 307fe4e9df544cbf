# A view whose geometry was written under no_grad.

func @f(%p0) {
  %v0 = softmax(%p0, 0)
  no_grad {
    as_strided_(%p0, [2], [0])
  }
  return %v0
}
func @g(%p0) {
  %v0 = softmax(%p0, 0)
  return %v0
}
case "reshaped before the call" {
  %a1 = randn([2], f32, seed=41, requires_grad=true)
  %a4 = transpose(%a1, 0, -1)
  no_grad {
    as_strided_(%a4, [2], [0])
  }
  call @g(%a4)
  backward seed=5
}
case "reshaped before the call and in it" {
  %a1 = randn([2], f32, seed=41, requires_grad=true)
  %a4 = transpose(%a1, 0, -1)
  no_grad {
    as_strided_(%a4, [2], [0])
  }
  call @f(%a4)
  backward seed=5
}
case "once" {
  %a1 = randn([2], f32, seed=41, requires_grad=true)
  %a4 = transpose(%a1, 0, -1)
  call @f(%a4)
  call @g(%a4)
  backward seed=5
}
