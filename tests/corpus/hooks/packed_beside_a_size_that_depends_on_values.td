# Saved values are packed in a function with a size that depends on values, which was refused: it is compiled for the
# sizes of the call.

func @f(%x, %m) {
  %y = sin(%x)
  %z = mul(%y, %y)
  no_grad {
    %s = argwhere(%m)
  }
  return %z, %s
}

case "other sizes in the second call" {
  %x = randn([4], seed=1, requires_grad=true)
  %m = tensor([1, 0, 1, 1], bool, [4])
  %k = tensor([1, 0, 0, 1], bool, [4])
  call @f(%x, %m) hooks=bf16 rehearse=true
  call @f(%x, %m) hooks=clone
  backward %out.0 seed=1
  call @f(%x, %k) hooks=clone
  backward %out.0 seed=2
}
