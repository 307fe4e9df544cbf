# A gradient taken inside of the function with respect to an argument passes through
# another argument that is a view of it, of symbolic sizes.

func @f(%v, %b) {
  %s = sin(%v)
  %y = mul(%s, %b)
  return %y
}

case "a view and the leaf it shows" {
  %b = randn([3,3], seed=1, requires_grad=true)
  %v = permute(%b, [1,0])
  call @f(%v, %b) grads=true dynamic=all
  %c = randn([4,4], seed=2, requires_grad=true)
  %w = permute(%c, [1,0])
  call @f(%w, %c) grads=true dynamic=all
}
