# Captured and cleaned by views: %out.0 requires no grad; in eager it does.
# The alias of a view that was made under no_grad is replaced by that view.

func @f(%p0, %p1, %p2) {
  %v0 = alias(%p0)
  enable_grad {
    %v8 = detach_(%p1)
    %v9 = erf(%v0)
  }
  rsqrt_(%v8)
  return %v9, %p1
}

case "an alias of a view made under no_grad" {
  %a0 = randint(-3, 4, [2,2,2], i32, seed=5)
  %a1 = randint(-3, 4, [], f32, seed=41, requires_grad=true)
  no_grad {
    %a2 = swapaxes(%a1, 0, -1)
  }
  call @f(%a2, %a1, %a0)
  call @f(%a2, %a1, %a0)
}
