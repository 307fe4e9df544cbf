# Eager fails, and so does a capture: argmin of what a mask selects, which is nothing the second time.

func @f(%p0: f32[2]) {
    %v1 = tensor([1, 1], bool, [2])
    %v2 = masked_select(%p0, %v1)
    %v3 = argmin(%v2, none, false)
  gt_(%v1, 2.0)
  return 
}
case "seed 136169274" {
  %a0 = randn([2,2], f32,)
  %a3 = narrow(%a0, 0, 0, 1)
  %a4 = squeeze_dim(%a3, -2)
  call @f(%a4)
  call @f(%a4)
}
