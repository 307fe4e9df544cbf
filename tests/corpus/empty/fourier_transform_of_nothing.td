# A Fourier transform over a dim of size 0 divided by it.

func @f(%a) {
  %b = _fft_r2c(%a, [0,1], 3, true)
  return %b
}
func @g(%a) {
  %b = _fft_c2c(%a, [0], 0, true)
  return %b
}
func @h(%a) {
  %b = _fft_r2c(%a, [0], 0, false)
  return %b
}
case "empty" {
  %a = ones([0,3], f32, requires_grad=true)
  call @f(%a)
  backward
  %b = ones([0,3], c64)
  call @g(%b)
  %c = ones([3,0], c64)
  call @g(%c)
  %d = ones([3,0], f32)
  call @h(%d)
}
case "an empty last dim" {
  %a = ones([3,0], f32)
  call @f(%a)
}
