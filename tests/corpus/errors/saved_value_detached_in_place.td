# A tensor that detach_ took the grad_fn from was read by backward as if nothing were: its second
# gradient went nowhere in eager, and elsewhere in compiled code. As in PyTorch, backward fails.

func @f(%x: f32[3] grad) {
  %k = mul(%x, %x)
  %l = sin(%k)
  %m = mul(%l, %l)
  %y = sin(%m)
  detach_(%l)
  return %y
}

func @g(%x: f32[3] grad) {
  %k = mul(%x, %x)
  %l = exp(%k)
  %y = add(%l, 1)
  detach_(%l)
  return %y
}

case "an argument of a saved op is detached in place: backward fails" {
  %a = tensor([3, 3, -1], f32, requires_grad=true)
  call @f(%a)
  backward
}

case "a saved result may be detached in place" {
  %a = tensor([0.5, 0.25, -1], f32, requires_grad=true)
  call @g(%a)
  backward %out.0 create_graph=true
  %d = grad %a
  backward %d
}

case "the result of a call is detached, which another call has read" {
  %a = tensor([0.5, 0.25, -1], f32, requires_grad=true)
  %b = mul(%a, %a)
  call @g(%b)
  detach_(%b)
  backward
}
