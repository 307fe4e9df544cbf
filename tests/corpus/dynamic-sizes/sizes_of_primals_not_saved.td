# Double backward reads a size of an input that is not saved.

func @f(%p0: f32[3,3] @0) {
  %v0 = reshape(%p0, [-1])
  %v1 = randint(0, 9, [9], i64)
  %v2 = scatter_value(%v0, 0, %v1, 3)
  return %v2
}
case "sizes of primals not saved" {
  %a2 = randint(-3, 1, [3,3], f32, seed=74, requires_grad=true)
  call @f(%a2)
  backward create_graph=true
}
