# The value of a fill is an element of the tensor that is filled: it is read as a number before the write.
func @f(%x: f32[4], %m: bool[4]) {
  %v = select(%x, 0, 2)
  masked_fill_(%x, %m, %v)
  %y = mul(%x, 2)
  %w = select(%y, 0, 3)
  fill_(%y, %w)
  return %y, %w
}
case "own element" {
  %a = tensor([1, 2, 3, 4], f32, [4])
  %m = tensor([1, 0, 1, 0], bool, [4])
  %r, %s = call @f(%a, %m)
}
case "with gradients" {
  %b = tensor([1, 2, 3, 4], f32, [4], requires_grad=true)
  %a = mul(%b, 3)
  %m = tensor([1, 0, 1, 0], bool, [4])
  %r, %s = call @f(%a, %m)
  backward %r seed=1
}
