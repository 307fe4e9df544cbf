# The geometry of a view of a view of a leaf may not be written.

func @f(%p0: f32[1,1,1]) {
  %v0 = diagonal(%p0, 1)
  %v2 = t_(%v0)
  %v3 = requires_grad_(%p0, true)
  return 
}
case "seed 85044135" {
  %a2 = full([1,1,1], 1, f32)
  call @f(%a2)
  %b0 = alias(%a2)
  call @f(%b0)
}
