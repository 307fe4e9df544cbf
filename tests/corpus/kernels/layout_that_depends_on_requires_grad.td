# The result layout of max_pool1d depends on requires_grad of its input, also for a result or a view of it.

func @f(%p0: f32[2,2,2]{4,1,2} @0, %p1: f32[2,2,2] @0) {
  %v0 = normal(%p0, 0.75, 1.0)
  %v3 = max_pool1d(%v0, [1])
  return %v3
}
func @g(%p1: f32[2,2,2]) {
  %v0 = transpose(%p1, 2, 1)
  %v3 = max_pool1d(%v0, [1])
  return %v3
}
case "a layout that asks for gradients" {
  %a1 = randint(-2, 2, [2,2,2], f32, seed=80, requires_grad=true)
  %a2 = transpose(%a1, 2, 1)
  call @f(%a2, %a1)
}
case "a view that asks for gradients" {
  %a1 = randint(-2, 2, [2,2,2], f32, seed=80, requires_grad=true)
  call @g(%a1)
}
