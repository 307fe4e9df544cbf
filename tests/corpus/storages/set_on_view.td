# Set_ on an argument that is a view.

func @f(%p0: f32[1,1] @0, %p1: f32[1] @1) {
  set_(%p1, %p0, 0, [1])
  no_grad {
    %v12 = set_(%p1, %p0, none)
  }
  return %v12
}
case "set on view" {
  %a0 = full([1], 0, f32)
  %a1 = randn([1], f32, seed=18, requires_grad=true)
  %a3 = view_as(%a0, %a0)
  %a4 = unfold(%a1, -1, 1, 1)
  call @f(%a4, %a3)
  backward
}
