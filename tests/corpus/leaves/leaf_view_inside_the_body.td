# Views of leaves made inside the body: gradients end at the leaf, also if it is not returned, and do not reach the
# tensor it was a view of.

func @only(%p0: f32[4]) {
  no_grad {
    %v = view(%p0, [-1])
  }
  requires_grad_(%v)
  %y = slice(%v, 0, 1, 3)
  return %y
}
case "the leaf is not returned" {
  %a = tensor([2, 2, -1, 0], f32, requires_grad=true)
  call @only(%a)
  backward
}
func @fresh(%p0: f32[4]) {
  %w = mul(%p0, 2.0)
  %d = detach(%w)
  requires_grad_(%d)
  %y = slice(%d, 0, 1, 3)
  return %y, %d
}
case "detached" {
  %a = tensor([2, 2, -1, 0], f32, requires_grad=true)
  call @fresh(%a)
  backward
}
func @plain(%p0: f32[4]) {
  %d = zeros([4])
  requires_grad_(%d)
  %y = slice(%d, 0, 1, 3)
  return %y, %d
}
case "made of nothing" {
  %a = tensor([2, 2, -1, 0], f32, requires_grad=true)
  call @plain(%a)
  backward
}
