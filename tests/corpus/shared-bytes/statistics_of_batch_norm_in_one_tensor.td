# Batch norm reads all arguments before it writes its running statistics, the variance last.

func @stats(%x, %r) {
  %y, %mean, %invstd = native_batch_norm(%x, none, none, %r, %r, true, 0.5, 0.001)
  return %y, %mean, %invstd, %r
}
case "mean and variance" {
  %x = randn([4,3], f32, seed=3, requires_grad=true)
  %r = tensor([1, 2, 3], f32, [3])
  call @stats(%x, %r)
  backward %out.0
}
case "of one element" {
  %x = randn([4,1], f32, seed=3, requires_grad=true)
  %r = tensor([1], f32, [1])
  call @stats(%x, %r)
}

func @norm(%x, %w, %b, %m, %v) {
  %y = batch_norm(%x, %w, %b, %m, %v, true, 0.25, 0.001)
  return %y
}
case "weight and mean" {
  %x = randn([4,3,2], f32, seed=4, requires_grad=true)
  %w = tensor([1, 2, 3], f32, [3])
  %b = tensor([4, 5, 6], f32, [3])
  call @norm(%x, %w, %b, %w, %b)
}
case "all" {
  %x = randn([4,3,2], f32, seed=4)
  %w = tensor([1, 2, 3], f32, [3])
  call @norm(%x, %w, %w, %w, %w)
}
case "bias and variance" {
  %x = randn([4,3,2], f32, seed=5)
  %w = tensor([1, 2, 3], f32, [3])
  %v = tensor([1, 1, 1], f32, [3])
  call @norm(%x, none, %v, %w, %v)
}
case "rows of one tensor" {
  %x = randn([4,3,2], f32, seed=6, requires_grad=true)
  %s = tensor([1, 2, 3, 1, 1, 1, 2, 2, 2], f32, [3,3])
  %m = select(%s, 0, 0)
  %v = select(%s, 0, 1)
  %w = select(%s, 0, 2)
  call @norm(%x, %w, none, %m, %v)
}
case "an alias, read in backward" {
  %x = randn([4,3,2], f32, seed=7, requires_grad=true)
  %w = tensor([1, 2, 3], f32, [3])
  %m = alias(%w)
  %v = ones([3], f32)
  call @norm(%x, %w, none, %m, %v)
  backward
}
case "part of the input" {
  %x = randn([4,3,2], f32, seed=8)
  %m = as_strided(%x, [3], [2], 0)
  %v = as_strided(%x, [3], [3], 4)
  call @norm(%x, none, none, %m, %v)
}
case "expanded to the input" {
  %m = tensor([1, 2, 3], f32, [3])
  %x = expand(%m, [4,2,3])
  %x = transpose(%x, 1, 2)
  call @norm(%x, none, none, %m, %m)
}
