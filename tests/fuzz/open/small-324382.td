# seed 324382: compiled: line 10: %out.0 does not have is_leaf, compiled does

func @f(%p0: f32[1,1,1,1] @0) {
  %v8 = swapaxes(%p0, -1, -1)
  return %v8
}
case "seed 324382" {
  inference {
    %a4 = randint(-1, 1, [1,1,1,1], f32, seed=75, requires_grad=true)
  }
  %a6... = split(%a4, 1, 0)
  call @f(%a6.0)
}
