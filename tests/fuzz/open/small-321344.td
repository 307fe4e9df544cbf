# seed 321344: compiled: line 9: works, compiled fails: as_strided_: a view of a leaf that requires grad is being written in place; use no_grad, or write to a clone

func @f(%p0: f32[2,2], %p3: f32[2,2]) {
  t_(%p0)
  %v4 = requires_grad_(%p3, true)
  return 
}
case "seed 321344" {
  %a0 = randint(-2, 1, [2,2], f32,)
  %a2 = squeeze_dim(%a0, 1)
  call @f(%a2, %a0)
}
