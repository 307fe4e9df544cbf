# A view of an expanded input whose sizes the call writes.

func @f(%p0: f32[1,3], %p2: f32[3,3]) {
  %v2 = unsqueeze_(%p2, 1)
  %v5 = hardshrink_backward(%p0, %v2, -1.5)
  return %v5
}
case "expanded input reshaped" {
  %a0 = full([1,3], 1, f32)
  %a1 = tensor([1, 1, 0], f32, [1,3], requires_grad=true)
  %a3 = expand(%a0, [3,3])
  call @f(%a1, %a3)
  backward
}
