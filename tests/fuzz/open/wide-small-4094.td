# seed 4094: compiled: line 13: works, compiled fails: f: gradients of gradients of inputs that overlap and are written (input 0); pass clones

func @f(%p0: f32[2,0] @0, %p1: f32[2,2,0] @0) {
  %v9 = slice_scatter(%p0, %p0, 1)
  no_grad {
    %v12 = randint(-2, 2, [2,0], f32)
    hypot_(%p0, %v12)
  }
  return %v9
}
case "seed 4094" {
  %a2 = full([2,2,0], 0, f32, requires_grad=true)
    %a3 = diagonal(%a2, -2, 2)
  call @f(%a3, %a2)
  backward create_graph=true
}
