# The call writes a tensor and reads an expanded view of it first; backward needs the
# value that was read. The copy that is saved has the strides of the view, also where
# sizes are symbols.

func @f(%b, %e, %w) {
  %c = clone(%e)
  %y = mul(%c, %w)
  mul_(%b, 2.0)
  return %y
}
case "expanded" {
  %b = full([1,3], 2, f32)
  %e = expand(%b, [4,3])
  %w = full([4,3], 3, f32, requires_grad=true)
  %y = call @f(%b, %e, %w)
  backward
  %g = grad %w
}
case "expanded and offset" {
  %a = full([3,3], 2, f32)
  %b = narrow(%a, 0, 1, 1)
  %e = expand(%b, [5,3])
  %w = full([5,3], 3, f32, requires_grad=true)
  %y = call @f(%b, %e, %w)
  backward
  %g = grad %w
}
