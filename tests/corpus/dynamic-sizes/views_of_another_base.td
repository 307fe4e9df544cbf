# The second call has views of a tensor of another size: gradients arrive there.

func @f(%p0, %p1) {
  mul_(%p0, 2)
  %v = mul(%p1, %p1)
  return %v
}
case "views of another base" {
  %a = randn([4], f32, seed=1, requires_grad=true)
  %x = mul(%a, 1)
  %s = slice(%x, 0, 0, 2)
  %t = slice(%x, 0, 1, 3)
  call @f(%s, %t)
  backward
  %c = randn([6], f32, seed=1, requires_grad=true)
  %y = mul(%c, 1)
  %u = slice(%y, 0, 0, 2)
  %w = slice(%y, 0, 1, 3)
  call @f(%u, %w)
  backward
}
