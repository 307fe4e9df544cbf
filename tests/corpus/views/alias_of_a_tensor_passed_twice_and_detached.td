# %p0 and %p1 are one tensor (swapaxes of a tensor without dims returns it). The pass over
# views replaced the alias by %p0, which detach_ of %p1 detaches; the alias keeps its history.

func @f(%p0, %p1, %p2) {
  %v0 = alias(%p0)
  enable_grad {
    %v8 = detach_(%p1)
    %v9 = erf(%v0)
  }
  rsqrt_(%v8)
  return %v9, %p1
}

case "an alias of a tensor that is passed twice" {
  %a0 = randint(-3, 4, [2,2,2], i32, seed=5)
  %a1 = randint(-3, 4, [], f32, seed=41, requires_grad=true)
  no_grad {
    %a2 = swapaxes(%a1, 0, -1)
  }
  call @f(%a2, %a1, %a0)
  call @f(%a2, %a1, %a0)
}
