# A leaf made in inference mode is returned as one.

func @f(%p0: f32[1]) {
  inference {
    %v7 = uniform(%p0)
    requires_grad_(%v7)
  }
  return %v7
}
case "inference leaf" {
  %a1 = randint(-1, 1, [1], f32)
  call @f(%a1)
}
