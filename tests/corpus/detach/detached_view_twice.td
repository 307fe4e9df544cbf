# detach_ of a view is an error, also if the view is passed twice.

func @f(%p0: f32[1,1]{1,1} @0, %p1: f32[1,1] @1) {
  detach_(%p1)
  return 
}
case "seed 76065121" {
  %a1 = randint(-1, 1, [1,1], f32,)
  %a3 = t(%a1)
  call @f(%a3, %a3)
}
