# A view whose geometry is written under no_grad passes no gradient in the second call.

func @f(%p0) {
  %v0 = softmax(%p0, 0)
  no_grad {
    as_strided_(%p0, [2], [0])
  }
  return %v0
}
case "seed 67041948" {
  %a1 = randn([2], f32, seed=41, requires_grad=true)
  %a4 = transpose(%a1, 0, -1)
  call @f(%a4)
  call @f(%a4)
  backward seed=5
}
