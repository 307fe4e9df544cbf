# seed 5002072: functional: line 9: %a2's gradient: element 2 is 2, functional 4

func @f( %p1: f32[2,2,2,2]) {
  %v4 = gelu_erf_backward(%p1, %p1)
  %v11 = as_strided_(%v4, [2,2,2,2], [0,1,2,2])
  return %v11
}
case "seed 5002072" {
  %a2 = randint(-2, 2, [2,2,2,2], f32, seed=64, requires_grad=true)
  call @f( %a2)
  backward
}
