# A view of a tensor that set_ gave a history without a derivative.

func @turned(%p0: f32[3,3]) {
  %v0 = flip(%p0, [1,0])
  %v1 = view(%v0, [-1])
  %v2 = set_(%v1, %v1)
  transpose_(%v1, 0, 0)
  return %v0, %v2
}
func @viewed(%p2: f32[2,2,2]) {
  %v0 = expand(%p2, [2,2,2])
  set_(%v0, %v0)
  %v6 = squeeze(%v0)
  return %v6
}
case "turned" {
  %a0 = tensor([3, 3, -1, -1, 0, -1, -1, -1, 3], f32, [3,3], requires_grad=true)
  call @turned(%a0)
  backward
}
case "viewed" {
  %a2 = tensor([-1, -2, -1, 0, -2, 0, 2, -2], f32, [2,2,2], requires_grad=true)
  %a3 = neg(%a2)
  call @viewed(%a3)
  backward
}
