# A view made under no_grad of a leaf requires grad and has no history; hooks on saved
# values give it back as it was, so that a gradient of it requires grad too.

func @product(%p1) {
  no_grad {
    %v3 = swapaxes(%p1, 0, 0)
  }
  %v7 = linear(%v3, %p1)
  return %v7
}

case "a clone is saved" {
  %a2 = randn([3], f32, seed=84, requires_grad=true)
  call @product(%a2) hooks=clone grads=true
}

case "no hooks" {
  %a2 = randn([3], f32, seed=84, requires_grad=true)
  call @product(%a2) grads=true
}

case "gradients of gradients outside" {
  %a2 = randn([3], f32, seed=84, requires_grad=true)
  call @product(%a2) hooks=clone
  backward create_graph=true
}
