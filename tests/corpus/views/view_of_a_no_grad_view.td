# A view with a history that ends at a view made under no_grad.

func @f(%p0: f32[1,1,1] @0) {
  %v12 = random(%p0, -1, none)
  no_grad {
    threshold_(%p0, 0, -1)
  }
  return %v12
}
case "view of a no grad view" {
  %a0 = randint(-1, 1, [1,1,1], f32, seed=26, requires_grad=true)
  no_grad {
    %a1 = expand(%a0, [1,1,1])
    enable_grad {
      %a2... = split(%a1, 1)
    }
  }
  call @f(%a2.0)
  backward
}
