# The derivative of a sum is a view of the tangent also for one element, so the leaf takes over its storage, as in PyTorch.

func @f( %p1: f32[] @1) {
  %v19 = sum_to_size(%p1, [])
  return %v19
}
case "seed 150303467" {
  %a1 = randn([], f32, seed=97, requires_grad=true)
  call @f( %a1)
    %t = expand_as(%out.0, %out.0)
  backward %out.0 with %t
  backward
no_grad {
}
}
