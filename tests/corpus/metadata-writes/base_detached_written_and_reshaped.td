# A base is detached, written with history, and its geometry is written; its view has the history of the base.

func @f(%p0: f32[1,0,1], %p1: f32[1,0,1]) {
  detach_(%p1)
  inference {
    mish_(%p0)
  }
  %v5 = logical_xor_(%p1, %p0)
  squeeze_dim_(%p1, 0)
  return 
}
case "seed 132079016" {
  %a0 = randint(-1, 1, [1,0,1], f32, seed=65, requires_grad=true)
  %a2 = reshape_as(%a0, %a0)
  call @f(%a2, %a0)
}
