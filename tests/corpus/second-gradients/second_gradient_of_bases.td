# A base and its view, written where history is detached: second gradients.

func @f(%p0: f32[2,2,2], %p1: f32[2,2,2,2]) {
  %v2 = detach(%p1)
  %v3 = randint(-2, 2, [2], i64)
  celu_(%v2, 1)
  %v7 = hypot(%p0, %p1)
  return %v7, %v3
}
case "second gradient of bases" {
  %a2 = tensor([2, -1, 1, -2, 2, -2, 2, 0, -1, -2, -2, -1, -1, -1, 2, 2], f32, [2,2,2,2], requires_grad=true)
  %a3 = select(%a2, -2, 0)
  call @f(%a3, %a2)
  backward %out.1, %out.0 create_graph=true
}
