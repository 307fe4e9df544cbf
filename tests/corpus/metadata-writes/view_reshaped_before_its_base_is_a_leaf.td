# A view whose geometry is written has no history when its base becomes a leaf later.

func @f(%p0: f32[2,2], %p3: f32[2,2]) {
  t_(%p0)
  %v4 = requires_grad_(%p3, true)
  return
}
case "view reshaped before its base is a leaf" {
  %a0 = randint(-2, 1, [2,2], f32)
  %a2 = squeeze_dim(%a0, 1)
  call @f(%a2, %a0)
}
