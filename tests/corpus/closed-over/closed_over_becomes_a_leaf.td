# A tensor that the function closes over becomes a leaf inside it, and the body asks whether it
# requires grad before it takes the gradient: it does.

func @f(%p1: f32[1] <const>) {
  requires_grad_(%p1)
  return %p1
}
case "the gradient of a leaf by itself" {
  %a1 = randn([1], f32, seed=3)
  call @f(%a1) grads=true
}
