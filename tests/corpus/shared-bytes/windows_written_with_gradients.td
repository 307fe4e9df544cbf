# Refused: a write of windows, with gradients. Only the last element for a place is stored and has a gradient.

func @f(%x: f32[4,3], %w: f32[3,2,3]) {
  %y = mul(%x, 2.0)
  %v = as_strided(%y, [3,2,3], [3,3,1], 0)
  mul_(%v, %w)
  return %y, %v
}

case "windows_written_with_gradients" {
  %x = randn([4,3], seed=1, requires_grad=true)
  %w = randn([3,2,3], seed=2)
  %y... = call @f(%x, %w)
  backward %y.0
}
