# A leaf is resized while it requires no grad, then requires grad again: its gradient has the new sizes.

func @f(%p0: f32[1,1,1]) {
  requires_grad_(%p0, false)
  resize_(%p0, [1,1])
  requires_grad_(%p0, true)
  return %p0
}
case "seed 174306272" {
  %a0 = randint(-1, 1, [1,1,1], f32, seed=75, requires_grad=true)
  call @f(%a0) module=train
  backward create_graph=true
}
