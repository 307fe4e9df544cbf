# The geometry of an input is written with gradients and in inference mode.

func @f(%p0: f32[2,2]) {
  squeeze_dims_(%p0, [1,0])
  inference {
    transpose_(%p0, -2, 1)
  }
  return %p0
}
case "seed 62021853" {
  %a0 = randint(-2, 2, [2,2], f32, seed=93, requires_grad=true)
  %a2 = copy(%a0, %a0, false)
  call @f(%a2)
  backward seed=7
}
