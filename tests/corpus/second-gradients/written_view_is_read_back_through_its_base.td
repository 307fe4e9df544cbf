# The saved result of exp_ is read through the base of %p0, whose storage is larger than
# the copy of %p0 that the double backward gets.
func @f(%p0: f32[1]) {
  transpose_(%p0, -1, 0)
  exp_(%p0)
  inference {
    %v = view_as(%p0, %p0)
  }
  return %p0
}
case "a written view is read back through its base" {
  %a = randn([2,2], f32, seed=65, requires_grad=true)
  %b = sum_to_size(%a, [1,2])
  %c = diagonal(%b)
  call @f(%c)
  backward create_graph=true
}
