# An index out of range fails although nothing reads the result.

func @f(%p0: f32[1]) {
  %v6 = tensor([-4], i64, [1])
  %v8 = value_selecting_reduction_backward(%p0, -1, %v6, [1], true)
  return
}
func @g(%p0: f32[]) {
  %v6 = tensor([4], i64, [])
  %v7 = full([], 1, f32)
  %v8 = nll_loss_backward(%p0, %v6, none, %v7, [3], "mean", -100)
  return
}
func @h(%p0: f32[1,2]) {
  %v6 = tensor([4], i64, [1])
  %v8 = embedding_dense_backward(%p0, %v6, 3, -1, false)
  return
}
case "a dead backward of a selection" {
  %a0 = randint(-1, 4, [1], f32, seed=19)
  call @f(%a0)
}
case "a dead backward of nll_loss" {
  %a0 = randint(-1, 4, [], f32, seed=19)
  call @g(%a0)
}
case "a dead backward of embedding" {
  %a0 = randint(-1, 4, [1,2], f32, seed=19)
  call @h(%a0)
}
