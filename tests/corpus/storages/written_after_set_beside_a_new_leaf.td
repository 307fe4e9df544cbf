# A view that set_ moved away is written beside a view that came to require grad: the base, an argument, gets the history.

func @f(%p0: f32[1,1] @0) {
  %v0 = view_as(%p0, %p0)
  %v3... = chunk(%p0, 1)
  %v4 = full([1,1], 1, f32)
  %v5 = set_(%v0, %v4, none)
  %v9 = requires_grad_(%v3.0)
  lt_(%v5, %v3.0)
  return 
}
case "seed 1500376753" {
  %a0 = full([1,1], 0, f32)
  call @f(%a0)
inference {
}
}
