# seed 30569935: compiled: line 12: works, compiled fails: copy_: a view of a leaf that requires grad is being written in place; use no_grad, or write to a clone

func @f(%p0: f32[1,1], %p1: f32[1,1]) {
  %v3, %v4 = native_dropout(%p1, 0.75, false)
  %v7 = requires_grad_(%p0, false)
  %v9 = randn([1,1], f32)
  sub_(%p0, %v9)
  %v10 = set_(%v7, %v3)
  return 
}
case "seed 30569935" {
  %a0 = full([1,1], 1, f32, requires_grad=true)
  %a1 = swapaxes(%a0, -1, 0)
  call @f(%a0, %a1)
}
