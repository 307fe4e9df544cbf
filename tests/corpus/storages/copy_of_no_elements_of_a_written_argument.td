# A result without elements shared the storage of a written argument, whose elements resize_ showed.

func @f(%p0: f32[4], %p1: f32[4]) {
  gt_(%p1, %p0)
  %s = slice(%p1, 0, 0, 2)
  %z = clone(%s)
  return  %z
}
func @e(%p0: f32[4], %p1: f32[4]) {
  gt_(%p1, %p0)
  %s = slice(%p1, 0, 0, 0)
  %z = clone(%s)
  resize_(%z, [4])
  return %z
}
func @h(%p0: f32[4], %p1: f32[4]) {
  gt_(%p1, %p0)
  %s = slice(%p1, 0, 0, 0)
  %z = clone(%s)
  return %z
}
case "a" {
  %a = ones([4], f32)
  %b = zeros([4], f32)
  call @f(%a, %b)
  fill_(%out.0, 9)
}
case "b" {
  %a = zeros([4], f32)
  %b = ones([4], f32)
  call @e(%a, %b)
}
case "c" {
  %a = zeros([4], f32)
  %b = ones([4], f32)
  call @h(%a, %b)
  resize_(%out.0, [4])
}
