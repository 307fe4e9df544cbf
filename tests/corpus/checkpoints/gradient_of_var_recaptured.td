# As gradient_of_var_mean_recaptured.td, with the count of all elements: a checkpoint makes the second call, in a
# backward.

func @f(%p: f32[4]) {
  %v = var(%p, none)
  %s = silu(%v)
  return %s, %p
}

func @g(%q: f32[4]) {
  %r = sqrt(%q)
  return %r
}

case "checkpoint" {
  %a = randint(-3, 4, [4], f32, seed=43, requires_grad=true)
  call @f(%a) checkpoint=true grads=true module=train
  %y... = call @g(%out.1)
  backward seed=5
}
