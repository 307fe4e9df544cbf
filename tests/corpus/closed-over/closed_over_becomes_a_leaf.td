# A tensor that the function closes over becomes a leaf inside the body, and the body reads requires_grad, which is
# true, before it computes the gradient.

func @f(%p1: f32[1] <const>) {
  requires_grad_(%p1)
  return %p1
}
case "the gradient of a leaf by itself" {
  %a1 = randn([1], f32, seed=3)
  call @f(%a1) grads=true
}
