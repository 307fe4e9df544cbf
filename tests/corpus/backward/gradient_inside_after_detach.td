# Refused: td_grad inside the function, where one argument was computed from the other outside. The
# body detaches it in place after another value was computed from it, whose history leads outside.

func @f(%p: f32[1], %q: f32[1]) {
  %r = random_(%p, -1, 1)
  %b = bernoulli(%p)
  detach_(%r)
  return %b
}

case "the first argument is detached in the end" {
  %a = full([1], 1, f32, requires_grad=true)
  %s = selu(%a)
  call @f(%s, %a) grads=true
}
