# Two nodes of a backward fail: one because of values, one because its saved result was written.

func @f(%p0: f32[3,2]) {
  %v0 = relu(%p0)
  %v9 = sqrt_(%v0)
  %v25 = tensor([1, 0, 1, 1, 0, 0], bool, [3,2])
  %v26 = masked_scatter_backward(%v0, %v25, [2])
  return  %v26
}
case "seed 30602348" {
  %a0 = full([3,2], 1, f32, requires_grad=true)
  call @f(%a0)
  backward
}
