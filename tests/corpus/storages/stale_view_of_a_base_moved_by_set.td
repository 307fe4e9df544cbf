# The base of a view is written under no_grad and then moved by set_; the view's history is recomputed from it.

func @f(%p0: f32[1,1], %p1: f32[1,1]) {
  %v3, %v4 = native_dropout(%p1, 0.75, false)
  %v7 = requires_grad_(%p0, false)
  %v9 = randn([1,1], f32)
  sub_(%p0, %v9)
  %v10 = set_(%v7, %v3)
  return 
}
func @back(%p0: f32[2,2], %p1: f32[2,2]) {
  %v3 = mul(%p1, 2)
  requires_grad_(%p0, false)
  sub_(%p0, 3)
  set_(%p0, %v3)
  %y = mul(%p1, 3)
  return %y
}
func @plain(%p0: f32[2,2], %p1: f32[2,2]) {
  %v3 = full([2,2], 1, f32)
  requires_grad_(%p0, false)
  sub_(%p0, 3)
  set_(%p0, %v3)
  %y = mul(%p1, 3)
  return %y
}
case "of a leaf" {
  %a0 = full([1,1], 1, f32, requires_grad=true)
  %a1 = swapaxes(%a0, -1, 0)
  call @f(%a0, %a1)
}
case "read" {
  %a0 = randn([2,2], f32, seed=4, requires_grad=true)
  %a1 = t(%a0)
  %y = call @back(%a0, %a1)
}
case "read and backward" {
  %a0 = randn([2,2], f32, seed=4, requires_grad=true)
  %a1 = t(%a0)
  %y = call @back(%a0, %a1)
  backward
}
case "plain" {
  %a0 = randn([2,2], f32, seed=4, requires_grad=true)
  %a1 = t(%a0)
  %y = call @plain(%a0, %a1)
}
func @w(%v: f32[2,2]) {
  mul_(%v, 3)
  %y = mul(%v, 5)
  return %y
}
case "moved before" {
  %a0 = randn([2,2], f32, seed=4, requires_grad=true)
  %b = mul(%a0, 2)
  %v = t(%b)
  %c = randn([2,2], f32, seed=5)
  %d = set_(%b, %c)
  %y = call @w(%v)
}
