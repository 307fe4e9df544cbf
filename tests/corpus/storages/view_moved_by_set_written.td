# A view that set_ moved to another storage becomes stale by a write.

func @f(%p0: f32[1,1,0] @0) {
  no_grad {
    fill_(%p0, -0.5)
  }
  return 
}
case "seed 76063203" {
  %a0 = randn([1,1,1], f32, seed=67, requires_grad=true)
  no_grad {
    %a2... = split(%a0, 1)
    %a3 = randn([1,1,0], f32,)
    set_(%a2.0, %a3, none, none, [1])
  }
  call @f(%a2.0)
}
