# With symbolic sizes a plain tensor of its sizes was passed in its place.

func @f(%p0: f32[2,2,2] of fz_pair("m", f32[2,2,2], f32[2,2,2]{2,2,1}), %p1: f32[2]) {
  return %p1
}
case "seed 5234" {
  %a2 = full([2], 2, f32, requires_grad=true)
  %a3 = tensor([1, -1, 2, -2, -2, 2, -1, -2], f32, [2,2,2])
  %a4 = tensor([1, 0, 0, 2, -1, -1, -1, 1], f32, [2,2,2])
  %a8 = _wrap([%a3, %a4], "fz_pair", "m", [2,2,2], [], f32)
  call @f(%a8, %a2) module=train
  backward create_graph=true
}
