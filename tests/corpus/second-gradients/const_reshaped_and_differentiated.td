# A constant whose geometry is written is not written a second time for double backward.

func @f(%p0: f32[3,1] @0) {
  %v0 = mish(%p0)
  %v1 = tensor([0, 1, 3], f32, [3])
  %v2 = transpose_(%v1, -1, -1)
  detach_(%v1)
  return  %v0
}
case "const reshaped and differentiated" {
  %a1 = randn([3,1], f32, seed=15, requires_grad=true)
  call @f(%a1)
  backward create_graph=true
}
