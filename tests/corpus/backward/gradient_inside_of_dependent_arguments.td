# Refused: td_grad inside the function, where one argument was computed from the other outside. Eager's
# gradient passes that history; a compiled function knows its own ops only.

func @f(%p: f32[2], %q: f32[2]) {
  return %p, %q
}

case "the second argument is the sigmoid of the first" {
  %a = randn([2], f32, seed=8, requires_grad=true)
  %b = sigmoid(%a)
  call @f(%b, %a) grads=true
}
