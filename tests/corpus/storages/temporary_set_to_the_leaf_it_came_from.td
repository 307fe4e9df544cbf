# A temporary with a history is set to the leaf it was computed from; its grad_fn is never read.

func @f(%p0: f32[1,1]{1,1} @0, %p1: f32[1,1] @0) {
  %v1 = softsign(%p1)
  requires_grad_(%v1, true)
  set_(%v1, %p1, none)
  return 
}
case "a temporary set to a leaf" {
  %a1 = full([1,1], 1, f32, requires_grad=true)
  call @f(%a1, %a1)
}
