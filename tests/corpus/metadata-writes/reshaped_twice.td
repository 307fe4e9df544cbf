# Geometry that is written twice: gradients pass through both metadata writes.

func @f(%p1: f32[2,2,2] @1) {
  as_strided_(%p1, [2], [2], 2)
  as_strided_(%p1, [2], [2], 1)
  return %p1
}
func @inside(%x: f32[2,2,2]) {
  %h = mul(%x, 3)
  as_strided_(%h, [2], [2], 2)
  as_strided_(%h, [2], [2], 1)
  return %h
}
func @once(%x: f32[2,2,2]) {
  as_strided_(%x, [2], [2], 1)
  return %x
}
case "reshaped twice" {
  %a0 = randint(-2, 2, [2,2,2], f32, seed=51, requires_grad=true)
  %a2 = _scale(%a0, 2)
  call @f(%a2)
  backward
}
case "a result reshaped twice" {
  %a0 = randn([2,2,2], f32, seed=51, requires_grad=true)
  call @inside(%a0)
  backward
}
case "reshaped once" {
  %a0 = randn([2,2,2], f32, seed=51, requires_grad=true)
  %a2 = mul(%a0, 2)
  call @once(%a2)
  backward
}
