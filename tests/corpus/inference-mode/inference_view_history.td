# A view of an inference tensor has a history.

func @f(%p0: f32[1]) {
  %v19 = full([1], 1, f32)
  %v20 = outer(%p0, %v19)
  return %v20
}
case "inference view history" {
  inference {
    %a4 = randn([1], f32, seed=84, requires_grad=true)
  }
  %a7 = t(%a4)
  call @f(%a7)
}
