# A backward of the second call passes through values of the first call.

func @f(%p1: f32[1,1]) {
  %v2 = exp2(%p1)
  %v3 = full([1,1], 1, f32)
  ge_(%p1, %v3)
  return %v2
}
case "backward twice calls" {
  %a0 = randn([1,1], f32, seed=72, requires_grad=true)
  %a1 = ceil(%a0)
  call @f(%a1)
  backward
  call @f(%a1)
  backward
}
