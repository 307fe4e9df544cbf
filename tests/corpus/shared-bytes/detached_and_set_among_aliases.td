# Written after it was detached and set to the storage of another input.

func @f(%p0: f32[], %p1: f32[]) {
  detach_(%p0)
  %v3 = set_(%p0, %p1, 1, [])
    %v4 = randint(0, 1, [], bool)
    %v5 = masked_scatter_(%v3, %v4, %p1)
  return 
}
case "seed 64023017" {
  %a0 = randint(-1, 1, [], f32, seed=66, requires_grad=true)
  %a1 = transpose(%a0, 0, -1)
  call @f(%a0, %a1)
}
