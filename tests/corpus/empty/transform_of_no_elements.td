# A onesided transform over a dim without elements has one number, which no kernel computed: it divided by zero. The
# error names the dim; other empty tensors have empty transforms.

func @onesided(%p0) {
  %v0 = _fft_r2c(%p0, [0], 0, true)
  return %v0
}

func @all(%p0) {
  %v0 = _fft_r2c(%p0, [0], 0, false)
  return %v0
}

case "onesided" {
  %a0 = randn([0,2], f32, seed=1)
  %y = call @onesided(%a0)
}

case "onesided, and other dims are empty" {
  %a0 = randn([3,0], f32, seed=1, requires_grad=true)
  %y = call @onesided(%a0)
}

case "all numbers" {
  %a0 = randn([0,2], f32, seed=1)
  %y = call @all(%a0)
}
