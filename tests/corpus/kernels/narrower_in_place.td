# A result written in a narrower dtype: gradients are not compared.

func @f(%p: f32[]) {
  %a = randn([], bf16)
  atan2_(%a, %p)
  return %a
}

case "backward" {
  %p = full([], 1, f32, requires_grad=true)
  call @f(%p)
  backward seed=1
}
