# A tensor that was a leaf when it was used takes gradients only while it requires grad.

func @input(%x: f32[2,2]) {
  requires_grad_(%x)
  %y = mul(%x, 2)
  requires_grad_(%x, false)
  return %y
}
func @written(%x: f32[2,2], %w: f32[2,2]) {
  requires_grad_(%x)
  %y = mul(%x, 2)
  requires_grad_(%x, false)
  mul_(%x, %w)
  return %y
}
func @came(%x: f32[2,2], %w: f32[2,2]) {
  %y = mul(%x, 2)
  requires_grad_(%x, false)
  mul_(%x, %w)
  return %y
}
func @off(%x: f32[2,2], %w: f32[2,2]) {
  %y = mul(%x, %w)
  requires_grad_(%x, false)
  return %y
}
func @double(%x: f32[2,2]) {
  %y = mul(%x, 2)
  return %y
}
case "of an input" {
  %x = randn([2,2], f32, seed=1)
  call @input(%x)
  backward
}
case "required again" {
  %x = randn([2,2], f32, seed=1)
  call @input(%x)
  requires_grad_(%x)
  backward
}
case "written since" {
  %x = randn([2,2], f32, seed=1)
  %w = randn([2,2], f32, seed=2, requires_grad=true)
  call @written(%x, %w)
  backward
}
case "came as a leaf" {
  %x = randn([2,2], f32, seed=1, requires_grad=true)
  %w = randn([2,2], f32, seed=2, requires_grad=true)
  call @came(%x, %w)
  backward
}
case "no leaf any more" {
  %x = randn([2,2], f32, seed=1, requires_grad=true)
  %w = randn([2,2], f32, seed=2, requires_grad=true)
  call @off(%x, %w)
  backward
}
case "between call and backward" {
  %x = randn([2,2], f32, seed=1, requires_grad=true)
  call @double(%x)
  requires_grad_(%x, false)
  backward
}
