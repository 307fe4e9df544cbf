# Second gradient: an argument ceases to require grad after a view of it was made.

func @f(%p0) {
  %v1 = unflatten(%p0, -1, [1])
  %v2 = requires_grad_(%p0, false)
  %v10 = hardtanh_backward(%p0, %v1, 0, -1)
  return %v10
}
case "seed 74020945" {
  %a0 = full([1,1,1], 0, f32, requires_grad=true)
  call @f(%a0)
  backward create_graph=true
}
