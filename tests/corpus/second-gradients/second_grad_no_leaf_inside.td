# requires_grad_(false) of a view made inside, second gradient.

func @f(%p0: f32[1,1,1,1] @0) {
    %v9 = randint(0, 1, [1], i64)
    %v10 = unflatten(%v9, -1, [-1])
  %v11 = threshold(%p0, -1.5, 1.25)
  requires_grad_(%v10, false)
  return  %v11
}
case "seed 77146750" {
  %a1 = randint(-1, 1, [1,1,1,1], f32, seed=50, requires_grad=true)
  call @f(%a1)
  backward create_graph=true
}
