# Backward from a result without elements: the gradient of the written input is missing and is replaced by zeros,
# though the sizes of both are known only by a guard.

func @f(%p0: f32[2,2,2]) {
  %v0 = randint(-2, 2, [2,2,2], f32)
  %v1 = gelu_tanh_backward(%p0, %v0)
  erf_(%p0)
  %v7 = tile(%p0, [0,2])
  return %v7
}
case "seed 230004975" {
  %a0 = randn([2,2,2], f32, seed=40, requires_grad=true)
  %a10 = tanhshrink(%a0)
  call @f(%a10)
  backward
}
