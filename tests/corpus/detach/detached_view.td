# detach_ of a view is an error, also of a view that takes no gradients.

func @f(%p0: f32[1,1] @0) {
  detach_(%p0)
  return 
}
case "detached view" {
  %a1 = randn([1,1], f32,)
  %b0 = transpose(%a1, 0, 1)
  call @f(%b0)
}
