# In one way of execution input 0 has no value before the call; views among the inputs are recomputed with the sizes
# of the call.
func @f(%p0: i8[2,3,1] @0, %p1: f32[3,3] @1, %p2: i8[2,3] @0) {
  enable_grad {
  }
  clamp_min_(%p2, 2)
  %v7 = randint(-3, 2, [3,2,3], i8)
  %v8 = floor(%p1)
  return %p0, %p1, %v7, %v8
}
case "seed 77111821" {
  %a0 = tensor([2, -1, 0, 0, 3, -2, 3, -1, 3], f32, [3,3], requires_grad=true)
  %a1 = tensor([3, 0, 3, -2, -1, -1], i8, [2,3])
  %a3 = unsqueeze(%a1, -1)
  call @f(%a3, %a0, %a1)
  backward %out.3, %out.1 create_graph=true
}
