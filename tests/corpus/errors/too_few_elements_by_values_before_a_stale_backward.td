# seed 30602348: compiled: line 11: both fail: masked_scatter: source f32[2] has fewer elements than the 3 places the mask sets; compiled: relu: its backward needs its result (f32[3,2] saved at version 0), but it has been modified in place by sqrt_ (version 1); write to a clone, or write before relu reads it

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
