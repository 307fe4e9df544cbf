# Compiled for a tensor that is no view, and called with a view, which the call gives a history.

func @f(%p0: bf16[3], %p1: f32[3]) {
  atan2_(%p0, %p1)
  return 
}
case "called with a view" {
  %a0 = randn([3], bf16,)
  %a1 = tensor([-1, 3, 3], f32, [3], requires_grad=true)
  %a2 = expand(%a0, [3])
  call @f(%a2, %a1) hooks=bf16 rehearse=true
  call @f(%a2, %a1)
}
