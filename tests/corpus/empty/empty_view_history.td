# A write to an empty view gives its base a history.

func @f(%p0: f32[0,1], %p1: f32[1,0], %p3: f32[1]) {
  ge_(%p0, %p3)
  return
}
case "empty view history" {
  %a0 = randint(-1, 1, [1], f32, seed=54, requires_grad=true)
  %a1 = randint(-1, 1, [1,0], f32)
  %a3 = swapaxes(%a1, -1, 0)
  call @f(%a3, %a1, %a0)
}
