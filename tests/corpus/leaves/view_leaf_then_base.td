# A view is a leaf of its own until its base is written with history.

func @f(%p0) {
  %v0 = expand_as(%p0, %p0)
  %v1 = requires_grad_(%p0, true)
  %v11 = mul_(%v0, %p0)
  return
}
case "view leaf then base" {
  %a1 = randint(-1, 1, [1,1], f32)
  %a11 = t(%a1)
  call @f(%a11)
}
