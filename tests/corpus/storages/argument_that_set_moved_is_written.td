# An argument that set_ moved away from its base is written inside: its history leads to the base, not to set_.

func @f( %p1: f32[1]) {
  %v17 = randint(0, 1, [1], i64)
  %v18 = tensor([1], f32, [1])
  index_copy_(%p1, 0, %v17, %v18)
  return %p1
}
case "seed 31489973" {
  %a1 = randint(-1, 1, [], f32,)
  %a2 = full([1], 1, f32, requires_grad=true)
  %a3 = amax(%a2, [-1], true)
  %a4 = _expand_reduced(%a3, [1], none, true)
  %a6 = set_(%a4, %a1, 0, [1], none)
  call @f( %a4)
  backward
}
