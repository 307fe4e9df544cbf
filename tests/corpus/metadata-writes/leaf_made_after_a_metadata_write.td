# A leaf is made after another value's geometry was written: gradients arrive at both.
func @f(%w) {
  %y = mul(%w, 2.0)
  t_(%y)
  %p = ones([2,3])
  requires_grad_(%p)
  %z = mul(%p, %w)
  return %y, %p, %z
}
case "a leaf made after a value whose geometry was written" {
  %w = tensor([1,2,3,4,5,6], f32, [2,3], requires_grad=true)
  call @f(%w)
  backward
}
