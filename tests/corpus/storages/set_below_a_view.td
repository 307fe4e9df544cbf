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
func @fresh(%p: f32[1,1]) {
  %v = sum_to_size(%p, [1])
  set_(%v, %v)
  return %v, %v
}
func @moved(%p: f32[]) {
  %v = reshape_as(%p, %p)
  set_(%v, %v, 1, [1], [1])
  return %v
}
case "reshaped" {
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
case "fresh, written since" {
  %a = randn([1,1], f32, seed=73, requires_grad=true)
  call @fresh(%a)
  fill_(%out.1, 1)
  backward %out.0
}
case "its base written since" {
  %a = tensor([0], f32, [], requires_grad=true)
  %b = add(%a, true)
  call @moved(%b)
  fill_(%b, 1)
  backward
}
