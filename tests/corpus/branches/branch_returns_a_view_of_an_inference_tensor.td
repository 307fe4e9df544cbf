# Refused: a view of an inference tensor has no history in eager; the result of the op cond requires grad, as its
# operand does.

func @f(%p0: f32[2,2,2,2] @0) {
  %v2 = sum(%p0)
  %v4 = cond(%v2, func @yes(%a: f32[2,2,2,2]) {
      %v = unsqueeze(%a, 0)
      return %v
    }, func @no(%a: f32[2,2,2,2]) {
      %v = unsqueeze(%a, 0)
      return %v
    }, [%p0])
  return  %v4
}
case "seed 8500201574" {
  inference {
    %a2 = randn([2,2,2,2], f32, seed=57, requires_grad=true)
  }
  call @f(%a2) control=true
}

