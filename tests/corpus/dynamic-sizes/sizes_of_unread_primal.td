# Backward needs a size of an input whose elements no gradient reads.

func @f(%p0: f32[2,2], %p1: bool[2,2,2,2]) {
  %v0 = remainder(%p1, -1)
  %v1 = sum_to_size(%p0, [2,1])
  return  %v1
}
case "sizes of unread primal" {
  %a0 = randint(0, 2, [2,2,2,2], bool,)
  %a2 = randn([2,2], f32, seed=89, requires_grad=true)
  call @f(%a2, %a0)
  backward create_graph=true
}
