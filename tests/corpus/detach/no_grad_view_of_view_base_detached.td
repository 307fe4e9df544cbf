# A view of a view made under no_grad requires grad as eager's does, although the base is detached later.

func @f(%p0, %p2) {
  no_grad {
    %v8 = permute(%p0, [-2,1])
  }
  %v11 = swapaxes(%v8, -1, -2)
  detach_(%p2)
  return  %v11
}
case "seed 40033708" {
  %a0 = randint(-3, 2, [], f32, seed=75, requires_grad=true)
  %a1 = randint(-3, 2, [3,3], f32,)
  %a4 = expand_as(%a0, %a1)
  %a5... = split(%a4, 2)
  call @f(%a5.1, %a0)
}
