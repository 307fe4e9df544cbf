# A view of another dtype that is written has a history of its own.

func @f(%p0, %p1) {
  addcdiv_(%p0, %p1, %p0, -0.75)
  return
}
case "dtype view own history" {
  %a2 = tensor([1], f32, [1,1], requires_grad=true)
  %a3 = view_dtype(%a2, f32)
  call @f(%a3, %a2)
}
