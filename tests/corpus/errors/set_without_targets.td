# A backward may fail although no argument takes a gradient.

func @f() {
  %v0 = randint(-1, 1, [1,1,1], f32)
  requires_grad_(%v0, true)
  %v7 = full([1,1,1], 1, f32)
  set_(%v7, %v0, 0, [27,1], [1,1])
  return %v7
}
case "set without targets" {
  call @f()
  backward
}
