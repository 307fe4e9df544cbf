# seed 77177066: compiled: line 11: works, compiled fails: set_: has no derivative

func @f(%p0: f32[] @0) {
  %v3 = reshape_as(%p0, %p0)
  set_(%v3, %v3, 1, [], [])
  return %v3
}
case "seed 77177066" {
  %a0 = tensor([0], f32, [], requires_grad=true)
  %a2 = add(%a0, true)
  call @f(%a2)
    fill_(%a2, 1)
  backward
}
