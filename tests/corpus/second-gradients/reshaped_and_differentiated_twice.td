# An input whose geometry is written is not written a second time for double backward.

func @f(%p0: f32[], %p2: f32[]) {
  transpose_(%p2, -1, -1)
  %v0 = randint(0, 1, [1,1], bool)
  %v4 = detach(%v0)
  %v9 = randn([1], f32)
  addcmul_(%v9, %p0, %p0, 1)
  return  %v9
}
case "reshaped and differentiated twice" {
  %a0 = randint(-1, 1, [], f32,)
  %a1 = randint(-1, 1, [1], f32, seed=14, requires_grad=true)
  %a2 = min(%a1)
  call @f(%a2, %a0)
  backward create_graph=true
}
