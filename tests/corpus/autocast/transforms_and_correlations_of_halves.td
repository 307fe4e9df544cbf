# Autocast runs Fourier transforms in f32, but for the Hermitian ones over several dims. The product in corrcoef is in
# the region's dtype, and so is the result, also of a half of the other dtype.

func @fft(%a: f16[4,2]) {
  %x = fft_rfft(%a)
  %y = fft_fft2(%a)
  %z = fft_irfftn(%x)
  %r = real(%y)
  %i = imag(%y)
  return %r, %i, %z
}
func @corrcoef(%a: f16[2,3], %b: f16[]) {
  %u = corrcoef(%a)
  %v = corrcoef(%b)
  return %u, %v
}
case "transforms" {
  %a = tensor([1, 2, 3, 0, 1, 1, 2, -1], f16, [4,2], requires_grad=true)
  call @fft(%a) autocast=bf16
  backward %out.2 seed=1
}
case "correlations" {
  %a = tensor([1, 2, 3, 0, 1, -1], f16, [2,3])
  %b = tensor([2], f16, [])
  call @corrcoef(%a, %b) autocast=bf16
}
