# A leaf made inside of a view without gradients is returned together with a view
# of it, whose gradient must arrive at the leaf.

func @f(%p0: f32[4]) {
  no_grad {
    %v = view(%p0, [-1])
  }
  requires_grad_(%v)
  %y = mul(%v, 2.0)
  return %y, %v
}
case "simpler" {
  %a = tensor([2, 2, -1, 0], f32, requires_grad=true)
  call @f(%a)
  backward
}
func @g(%p0: f32[4]) {
  no_grad {
    %v = view(%p0, [-1])
  }
  requires_grad_(%v)
  %y = as_strided(%v, [2], [0], 2)
  return %y, %v
}
case "no split" {
  %a = tensor([2, 2, -1, 0], f32, requires_grad=true)
  call @g(%a)
  backward
}
func @h(%p0: f32[4]) {
  no_grad {
    %v = view(%p0, [-1])
  }
  requires_grad_(%v)
  %y = slice(%v, 0, 1, 3)
  return %y, %v
}
case "slice" {
  %a = tensor([2, 2, -1, 0], f32, requires_grad=true)
  call @h(%a)
  backward
}
func @found(%p0: f32[2,2]) {
  %v9... = split(%p0, 2)
  no_grad {
    %v21 = view(%v9.0, [-1])
  }
  requires_grad_(%v21)
  %v26 = as_strided(%v21, [2], [0], 2)
  return %v26, %v21
}
case "seed 1030038792" {
  %a1 = tensor([2, 2, -1, 0], f32, [2,2], requires_grad=true)
  call @found(%a1)
  backward create_graph=true
}
