# slice_scatter returns a tensor with the offset of its argument; so does a compiled call, also when the result is
# written, copied or viewed.

func @turned(%p0) {
  %v2 = slice_scatter(%p0, %p0)
  %v4 = as_strided_(%v2, [1], [2], 1)
  square_(%v4)
  return %v4
}
func @returned(%p0) {
  %v2 = slice_scatter(%p0, %p0)
  return %v2, %v2
}
func @shown(%p0) {
  %v2 = slice_scatter(%p0, %p0)
  %v3 = as_strided(%v2, [2], [1], 0)
  return %v2
}
func @both(%p0) {
  %v2 = slice_scatter(%p0, %p0)
  %v3 = exp(%v2)
  add_(%v2, 1)
  %v4 = as_strided_(%v2, [1], [2], 1)
  mul_(%v2, %v3)
  return %v4
}
func @twice(%p0) {
  %v2 = slice_scatter(%p0, %p0)
  %v3 = slice_scatter(%p0, %p0)
  as_strided_(%v3, [1], [1], 1)
  return %v2, %v3
}
case "bytes of integers" {
  %a0 = randint(-2, 1, [2], i16, seed=1)
  %a3... = split(%a0, 1)
  call @turned(%a3.1)
  call @returned(%a3.1)
  call @shown(%a3.1)
  call @twice(%a3.1)
}
case "with a gap" {
  %a0 = randn([6], f32, seed=1)
  %a1 = as_strided(%a0, [2], [2], 1)
  call @returned(%a1)
  call @shown(%a1)
  call @both(%a1)
  call @twice(%a1)
}
case "written and reshaped" {
  %l = randn([6], f32, seed=1, requires_grad=true)
  %a0 = mul(%l, 2)
  %a1 = as_strided(%a0, [1], [2], 1)
  call @both(%a1)
  backward
}
func @made(%p0) {
  %v2 = slice_scatter(%p0, %p0)
  add_(%v2, 1)
  return %v2
}
func @shows(%p0) {
  %v2 = slice_scatter(%p0, %p0)
  add_(%v2, 1)
  %v3 = as_strided(%v2, [1], [1], 1)
  return %v3, %v2
}
case "written" {
  %l = randn([6], f32, seed=1, requires_grad=true)
  %a0 = mul(%l, 2)
  %a1 = as_strided(%a0, [1], [2], 1)
  call @made(%a1)
  backward
}
case "shown" {
  %a0 = randn([6], f32, seed=1)
  %a1 = as_strided(%a0, [2], [2], 1)
  call @made(%a1)
  call @shows(%a1)
}
case "shown, with a history" {
  %l = randn([6], f32, seed=1, requires_grad=true)
  %a0 = mul(%l, 2)
  %a1 = as_strided(%a0, [1], [2], 1)
  call @shows(%a1)
  backward
}
