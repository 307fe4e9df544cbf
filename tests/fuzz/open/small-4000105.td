# seed 4000105: functional: line 9: works, functional fails: copy_: a leaf that requires grad is being written in place; use no_grad, or write to a clone

func @f(%p0: f32[1,1] @0, %p2: f32[1,1] @0) {
  %v0 = leaky_relu_(%p0, 1)
  return 
}
case "seed 4000105" {
  %a0 = full([1,1], 0, f32, requires_grad=true)
  %a3 = view_dtype_inverse(%a0, %a0, f32)
  %a4 = eq_(%a3, %a0)
  call @f(%a4, %a0)
}
