# broadcast_tensors returns a tensor itself where it has the sizes; it was a view of it.
func @f(%x: f32[2,3], %y: f32[3]) {
  %b... = broadcast_tensors([%x, %y])
  mul_(%b.0, 2)
  %z = mul(%b.0, %b.1)
  return %b.0, %z
}
case "a leaf" {
  %x = randn([2,3], f32, seed=3)
  %y = randn([3], f32, seed=4, requires_grad=true)
  call @f(%x, %y)
  backward
}
