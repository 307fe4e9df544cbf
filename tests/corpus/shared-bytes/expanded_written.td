# A write to an expanded tensor with a history.

func @f(%p0: f32[2,2]{0,0} @0) {
  zero_(%p0)
  return
}
case "expanded written" {
  %a1 = randint(-2, 2, [2,2,2], f32, seed=71, requires_grad=true)
  %a4 = min(%a1)
  %a5 = expand(%a4, [2,2])
  call @f(%a5)
}
