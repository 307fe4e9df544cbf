# A base and a view that set_ moved to another storage are both written with history.

func @f(%p0: f32[3]{1} @0, %p1: f32[3,3] @0, %p2: f32[3,3] @0, %p3: f32[3,3] @1, %p4: f32[3,3] @0) {
  atan2_(%p3, %p2)
  %v2 = celu_(%p2, -1.25)
  return 
}
case "seed 82188256" {
  %a0 = full([3,3], 1, f32)
  %a1 = squeeze_dim(%a0, 0)
  %a2 = tensor([-1, 1, 1, -1, -1, 0, -1, 1, 1], f32, [3,3], requires_grad=true)
  set_(%a1, %a2, none, none, none)
  %a3 = diagonal(%a1)
  call @f(%a3, %a2, %a1, %a0, %a2)
}
