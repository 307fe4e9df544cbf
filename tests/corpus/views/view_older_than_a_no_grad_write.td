# A view made before its base, which has a history, is written under no_grad is no leaf.

func @f(%p0: f32[1,1]) {
  %v0 = movedim(%p0, [0], [-1])
  %v1 = clamp_tensor_(%p0, none, %p0)
  return  %v0
}
case "seed 1010006032" {
  %a2 = randint(-1, 1, [1,1,1], f32, seed=86, requires_grad=true)
  %a3 = sum_to_size(%a2, [1,1])
no_grad {
  call @f(%a3)
}
}
func @g(%p0: f32[]) {
  %v3 = reshape(%p0, [])
  abs_(%p0)
  return %v3
}
case "seed 1010078391" {
  %a2 = randint(-1, 1, [1], f32, seed=98, requires_grad=true)
  %a4 = randint(0, 1, [1], i64,)
  %a5 = l1_loss(%a2, %a4, "sum")
no_grad {
  call @g(%a5)
}
}
