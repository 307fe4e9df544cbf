# A view is written after as_strided_ gave its base other elements.

func @f(%p0: f32[2,2], %p1: f32[2,2]) {
  as_strided_(%p1, [2], [2], 1)
  %v3 = randint(0, 2, [2,2], i64)
  scatter_value_(%p0, 1, %v3, -2)
  return  %p0
}
case "seed 78022465" {
  %a0 = randint(-2, 2, [2,2,1], f32, seed=83, requires_grad=true)
  %a2 = squeeze_dims(%a0, [0,2])
  %a3 = log(%a2)
  %a4 = permute(%a3, [1,0])
  call @f(%a4, %a3)
  backward
}
