# A view with a history, whose base is detached and moved away.

func @f(%p0: f32[3,3]) {
  %v0 = movedim(%p0, [-2,1], [1,0])
  %v6 = detach_(%p0)
  %v7 = randint(-3, 2, [3,3], f32)
  set_(%v6, %v7, 1, [3,3], [0,1])
  return %v0
}
case "view of detached moved" {
  %a1 = tensor([-1, 0, 3, 2, -1, 3, 0, 1, 2], f32, [3,3], requires_grad=true)
  call @f(%a1)
}
