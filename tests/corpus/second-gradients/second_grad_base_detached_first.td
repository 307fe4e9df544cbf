# A view of an argument that is detached, second gradient.

func @f(%p0: f32[2,2], %p1: f32[2,2]) {
  %v6 = tensor([-2, 0], i16, [2])
  %v7 = select_scatter(%p1, %v6, -2, -1)
    %v13 = detach_(%p0)
  return  %v7
}
case "seed 77112259" {
  %a0 = randint(-2, 2, [2,2], f32, seed=93, requires_grad=true)
  %a1 = squeeze_dims(%a0, [0,1])
  call @f(%a0, %a1)
  backward create_graph=true
}
