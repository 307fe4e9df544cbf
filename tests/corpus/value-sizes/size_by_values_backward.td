# Refused: what backward needs to know of sizes is checked before it.

func @f(%p0: f32[]) {
  %v0 = randint(0, 2, [], bool)
  %v1 = masked_select(%p0, %v0)
  %v8 = movedim(%v1, [0], [0])
  %v13 = randint(0, 1, [1], i64)
  %v14 = randint(-2, 2, [1], f32)
  scatter_add_(%v8, -1, %v13, %v14)
  return %v1
}
case "size by values backward" {
  %a0 = full([], 2, f32, requires_grad=true)
  call @f(%a0)
  backward
}
