# seed 313051: compiled: line 10: works, compiled fails: an inference tensor cannot require grad outside inference mode

func @f(%p0: f32[1]) {
  inference {
    %v7 = uniform(%p0)
    requires_grad_(%v7)
  }
  return %v7
}
case "seed 313051" {
  %a1 = randint(-1, 1, [1], f32,)
  call @f(%a1)
}
