# Saved values are packed in a function with a size that depends on values: it is compiled for the sizes of the call.

func @f(%x, %m) {
  %y = sin(%x)
  %s = masked_select(%y, %m)
  %z = mul(%s, %s)
  return %z
}

case "other sizes in the second call" {
  %x = randn([4], seed=1, requires_grad=true)
  %m = tensor([1, 0, 1, 1], bool, [4])
  %k = tensor([1, 0, 0, 1], bool, [4])
  call @f(%x, %m) hooks=clone rehearse=true
  call @f(%x, %m)
  backward seed=1
  call @f(%x, %k)
  backward seed=2
}
