# Second gradients of a view and its base, both passed and written.

func @f(%p0: f32[2,0] @0, %p1: f32[2,2,0] @0) {
  %v9 = slice_scatter(%p0, %p0, 1)
  no_grad {
    %v12 = randint(-2, 2, [2,0], f32)
    hypot_(%p0, %v12)
  }
  return %v9
}
case "second gradient of empty views" {
  %a2 = full([2,2,0], 0, f32, requires_grad=true)
    %a3 = diagonal(%a2, -2, 2)
  call @f(%a3, %a2)
  backward create_graph=true
}
