# An empty argument that set_ gives a history.

func @f(%p0: f32[0] @0, %p4: f32[0] @0) {
  %v1 = set_(%p0, %p4, none)
  lt_(%v1, %v1)
  return 
}
case "seed 78028016" {
  %a1 = full([0], 0, f32, requires_grad=true)
  %a3 = detach(%a1)
  call @f(%a3, %a1)
}
