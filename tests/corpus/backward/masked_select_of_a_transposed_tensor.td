# The gradient of masked_select has the layout of self, as zeros_like of it has.
func @f(%p3: f32[3,1,3,3]) {
  %v1 = swapaxes(%p3, -1, -4)
  %v6 = hardtanh(%v1)
  %v9 = tensor([0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 1, 0], bool, [3,1,3,3])
  %v10 = masked_select(%v6, %v9)
  return %v10
}
case "a" {
  %a0 = full([3,1,3,3], 1, f32, requires_grad=true)
  call @f(%a0) grads=true
}
