# Second gradient: the base of a view, an argument too, ceases to require grad in the call.

func @f(%p0: f32[4] @0, %p1: f32[2,1,1,2] @0) {
  requires_grad_(%p1, false)
  %v8 = random(%p0, -2)
  return  %v8
}
case "seed 74013164" {
  %a0 = randn([2,1,1,2], f32, seed=24, requires_grad=true)
  %a2 = ravel(%a0)
  call @f(%a2, %a0)
  backward create_graph=true
}
