# requires_grad is switched off for a stale view, whose base got a history since.

func @f(%p: f32[3,2,3,3]) {
  %v = requires_grad_(%p, false)
  return
}

case "the base is written with gradients" {
  %a = tensor([3, 1, 1, 3, 0, -2, 3, 0, 1], f32, [3,3], requires_grad=true)
  %b = full([3,2,3,3], 1, f32)
  %v = squeeze_dims(%b, [1,2])
  addcdiv_(%b, %b, %a)
  call @f(%v)
}
