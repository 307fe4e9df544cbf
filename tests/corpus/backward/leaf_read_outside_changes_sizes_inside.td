# A leaf that an op has read takes gradients in the sizes it had then, also inside a function that changes them under no_grad.

func @f( %p2) {
  no_grad {
    squeeze_(%p2)
  }
  return %p2
}
case "seed 51395778" {
  %a0 = randint(-1, 1, [1], f32,)
  %a3 = randint(-1, 1, [1], f32, seed=96, requires_grad=true)
  %a4 = logit_backward(%a0, %a3)
  call @f( %a3) grads=true
}
