# A view requires grad because its base does, and then becomes a leaf of its own.

func @f(%p0: f32[0]) {
  %v0 = _reshape_copy(%p0, [1,0])
  requires_grad_(%p0, true)
  %v3... = split_with_sizes(%p0, [0])
  return %v3.0, %v0
}
case "seed 78062196" {
  %a1 = randint(-1, 1, [1,0,1], f32, seed=24, requires_grad=true)
  no_grad {
    %a3 = ravel(%a1)
  }
  call @f(%a3)
  call @f(%a3)
  backward %out.1
}
