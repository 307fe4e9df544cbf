# A gradient is summed to a size that is 1 by a guard only.

func @f(%p0: f32[2,2,2]) {
  %v12 = full([2,2,2], 0, f32)
  %v14 = max_pool1d(%p0, [2])
  %v16 = softshrink_backward(%v14, %v12, -0.25)
  return  %v16
}
case "seed 67012634" {
  %a0 = full([2,2,2], 1, f32, requires_grad=true)
  call @f(%a0)
  backward
}
