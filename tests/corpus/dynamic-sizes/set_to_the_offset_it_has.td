# set_ counts from the offset an input has; another offset is another specialization.
func @f(%p0: f32[3,2]) {
  %v1 = set_(%p0, %p0, 1, [3,2])
  return 
}
case "c" {
  %a1 = tensor([2, -1, 2, 3, 0, -2, 4, 5], f32)
  resize_(%a1, [3,2])
  call @f(%a1)
  call @f(%a1)
  %b0 = tensor([2, -1, 2, 3, 0, -2, 4, 5], f32)
  resize_(%b0, [3,2])
  call @f(%b0)
}
