# The argument no longer requires grad: its view, made under no_grad, may be read after the write.

func @f(%p: f32[1]) {
  detach_(%p)
  fill_(%p, -1)
  return
}

case "a view of a leaf that is detached and written" {
  %p = randint(-1, 1, [1], f32, seed=41, requires_grad=true)
  no_grad {
    %v = slice(%p, 0)
  }
  call @f(%p)
  %c = cat([%v, %v], 0)
}
