# detach_ of a dtype view, also where the program is executed a second time.

func @f(%p0: f32[2,2], %p2: i16[2,1]) {
  %v1 = squeeze_dim(%p2, -2)
  detach_(%v1)
  %v4 = tensor([-2, -2], f32, [2])
  %v5 = diagonal_scatter(%p0, %v4, 0)
  return %v5
}
case "seed 128167002" {
  %a0 = randint(0, 2, [2,2], bool,)
  %a1 = view_dtype(%a0, i16)
  %a3 = randint(-2, 2, [2,2], f32, seed=56, requires_grad=true)
  call @f(%a3, %a1)
  backward create_graph=true
}
