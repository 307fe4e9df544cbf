# A hook that returns a view it closes over: accumulation copies the gradient, because the memory is the caller's, and the next backward does not write the argument
func @f( %p1: f32[2,2,2]) {
  %v4 = broadcast_to(%p1, [2,2,2])
  on_grad(%v4, func @hook(%g: f32[2,2,2], %a: f32[2,2,2]) {
      return %a
    }, [%v4])
  return %v4
}
case "a hook returns a view of an argument" {
  %a1 = tensor([1, -1, 0, 1, -2, -2, -1, 2], f32, [2,2,2], requires_grad=true)
  call @f( %a1)
  backward
  backward
}
func @s(%p: f32[2,2], %q: f32[1,2,2]) {
  %v = alias(%p)
  %w = select(%q, 0, 0)
  on_grad(%v, func @hook(%g: f32[2,2], %a: f32[2,2]) {
      return %a
    }, [%w])
  return %v
}
case "a view of other sizes than the argument" {
  %a = tensor([1, 2, 3, 4], f32, [2,2], requires_grad=true)
  %b = tensor([1, 2, 3, 4], f32, [1,2,2])
  call @s(%a, %b)
  backward
  backward
}
