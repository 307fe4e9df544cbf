# A written view without elements has an offset and strides, but its storage has no
# bytes: the copy through which it is read addresses none of them.

func @f(%p, %n) {
  gt_(%p, %n)
  return
}
func @g(%p: f32[1,2,0]) {
  add_(%p, 0.25)
  return
}
case "a part of an unbound tensor" {
  %a = tensor([], i8, [2,0,1,1])
  %u... = unbind(%a, -1)
  call @f(%u.0, -0.75)
}
case "behind the start" {
  %a = zeros([3,2,0], f32)
  %s... = split_with_sizes(%a, [2,1,0], -3)
  call @g(%s.1)
}
