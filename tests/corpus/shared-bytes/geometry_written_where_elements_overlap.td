# Elements that overlap are copied without changing the history: copy_ would give the gradient of one element to all
# of them.

func @f(%p0: f64[2,2,2]) {
  %v0 = as_strided_(%p0, [2,2,2], [0,2,2], none)
  %v1 = median(%v0)
  return  %v1
}

case "an argument overlaps itself, its geometry is written" {
  %a0 = randint(-2, 2, [2,2,2], f32, seed=95, requires_grad=true)
  %a1 = to(%a0, f64)
  %a2 = as_strided_(%a1, [2,2,2], [0,2,2], none)
  call @f(%a1)
  backward
}
