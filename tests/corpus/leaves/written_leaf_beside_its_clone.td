# A leaf is written without gradients, and a clone of it, the same value, has a history.

func @f( %p1: f32[1,1] @1) {
  no_grad {
    mish_(%p1)
  }
  %v15 = clone(%p1, false)
  return  %v15
}
case "written leaf beside its clone" {
  %a1 = randint(-1, 1, [1,1], f32, seed=83, requires_grad=true)
  call @f( %a1)
}
