# A function that takes gradients of its results is the region of a checkpoint: the backward
# inside runs the region again, and so does the one outside.

func @f(%p: f32[3], %q: f32[3]) {
  %s = sin(%p)
  %m = mul(%s, %q)
  %y = exp(%m)
  return %y
}

case "first gradients inside, second ones outside" {
  %p = randn([3], f32, seed=1, requires_grad=true)
  %q = randn([3], f32, seed=2, requires_grad=true)
  call @f(%p, %q) checkpoint=true grads=true
  backward seed=3
}
