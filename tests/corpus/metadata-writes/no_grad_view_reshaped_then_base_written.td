# The geometry of a view made under no_grad is written, and then its base is written.

func @f(%p0: f32[2,1] @0, %p1: f32[2,1] @0) {
  no_grad {
    t_(%p0)
  }
  lerp_(%p1, %p1, 1.25)
  return 
}
case "seed 77189384" {
  %a2 = randint(-2, 2, [2,1], f32, seed=7, requires_grad=true)
  %a3 = _scale(%a2, -2)
  no_grad {
    %a4 = alias(%a3)
  }
  call @f(%a4, %a3)
}
