# A view made in inference mode has no history of its own, whether or not its base is written.

func @f(%p1: f32[1,1,1] @0) {
  requires_grad_(%p1, false)
  return
}
func @g(%p0: f32[] @0, %p2: f32[1,1] @0) {
  detach_(%p2)
  %v3 = expand(%p0, [])
  return
}
case "requires_grad_ of an inference view" {
  %a0 = randn([1,1,1], f32, seed=38, requires_grad=true)
  inference {
    %a2... = chunk(%a0, 1)
    sinh_(%a0)
  }
  call @f(%a2.0)
}
case "an inference view of a detached base" {
  %a1 = full([1,1], 1, f32, requires_grad=true)
  inference {
    %a2 = as_strided(%a1, [], [], none)
    sinh_(%a2)
  }
  call @g(%a2, %a1)
}
