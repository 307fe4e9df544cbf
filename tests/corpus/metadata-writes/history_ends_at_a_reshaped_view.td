# A view of a view whose geometry was written under no_grad: no gradient passes to the input.

func @f(%p0: f32[3,3,1]) {
  no_grad {
    %v5 = slice(%p0)
    unsqueeze_(%v5, 1)
    %v6... = chunk(%v5, 1)
  }
  %v8... = split(%v6.0, 1, -1)
  return %v8.0
}
case "seed 101126569" {
  %a0 = randint(-3, 1, [3,3,1,3], f32, seed=49, requires_grad=true)
  %a1... = unbind(%a0, 3)
  call @f(%a1.2)
  backward
}
