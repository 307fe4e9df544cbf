# A function that takes gradients of its results is the region of a checkpoint. No result depends
# on the second argument, so its gradient is none, and the checkpoint returns none for it.

func @f(%p: f32[3], %q: f32[3]) {
  %s = sin(%p)
  %y = exp(%s)
  return %y
}

case "a gradient inside that does not exist" {
  %p = randn([3], f32, seed=1, requires_grad=true)
  %q = randn([3], f32, seed=2, requires_grad=true)
  call @f(%p, %q) checkpoint=true grads=true
  backward seed=3
}
