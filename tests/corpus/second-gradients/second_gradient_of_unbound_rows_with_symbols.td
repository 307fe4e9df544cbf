# Inputs that are rows of another input, traced with symbolic sizes, are recomputed for double backward.
func @f(%p0: f32[2]{1}+2 @0, %p1: f32[2]{1}+2 @0, %p2: f32[2] @0, %p3: f32[3,2] @0, %p4: f32[2,2,2] @1) {
  enable_grad {
    transpose_(%p2, -1, -1)
  }
    %v19 = floor_divide(%p4, -2)
  return %v19
}
case "seed 77115891" {
  %a0 = tensor([2, 2, -2, 1, 1, 0, -2, -2], f32, [2,2,2], requires_grad=true)
  %a1 = randn([3,2], f32,)
  %a2... = unbind(%a1)
  call @f(%a2.2, %a2.1, %a2.0, %a1, %a0)
  backward create_graph=true
inference {
}
}
