# as_strided and set_ over the storage of an argument whose sizes are symbols: the
# storage has a symbolic size, too, where the argument fills it.

func @windows(%x) {
  %w = as_strided(%x, [2,2], [1,1], 1)
  %y = mul(%w, %w)
  return %y, %w
}

case "windows" {
  %a = randn([5,3], seed=1, requires_grad=true)
  %y, %w = call @windows(%a) dynamic=all
  backward %y, %w seed=3
  %b = randn([4,2], seed=2, requires_grad=true)
  %z, %v = call @windows(%b) dynamic=all
  backward %z seed=4
  %c = randn([2,2], seed=5, requires_grad=true)
  %u, %t = call @windows(%c) dynamic=all
  backward %u create_graph=true
  %g = grad %c
  backward %g
}

case "a storage with a rest" {
  %a = randn([20], seed=1, requires_grad=true)
  %b = narrow(%a, 0, 2, 6)
  %y, %w = call @windows(%b) dynamic=maybe
  backward %y seed=3
  %d = narrow(%a, 0, 0, 20)
  %z, %v = call @windows(%d)
  backward %z seed=3
  %e = narrow(%a, 0, 15, 5)
  %u, %t = call @windows(%e)
  backward %u seed=3
}

func @written(%x) {
  %w = as_strided(%x, [2,2], [2,1], 0)
  mul_(%w, 3.0)
  %y = sum(%x)
  return %y, %w
}

case "a window is written" {
  %a = randn([5,3], seed=1, requires_grad=true)
  %b = mul(%a, 1.0)
  %y, %w = call @written(%b) dynamic=all
  backward %y seed=3
  %c = randn([3,4], seed=2, requires_grad=true)
  %d = mul(%c, 1.0)
  %z, %v = call @written(%d) dynamic=all
  mul_(%v, 2.0)
  backward %z, %d seed=4
}

case "too few elements" {
  %a = randn([5,3], seed=1, requires_grad=true)
  %y, %w = call @windows(%a) dynamic=all
  %c = randn([2], seed=2, requires_grad=true)
  %z, %v = call @windows(%c) dynamic=all
}
