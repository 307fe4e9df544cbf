# Another view of a tensor, while a copy has the offset of the first view.

func @f(%p0: f32[1]) {
  %v0 = slice(%p0, 0)
  no_grad {
    %v1 = logical_and_(%v0, %p0)
    fmod_(%v1, 3)
    %v4 = randint(0, 1, [2], i64)
    %v5 = tensor([0], f64, [])
    %v6 = index_fill(%p0, -1, %v4, %v5)
  }
  return 
}

case "seed 160093370" {
  %a0 = randn([2,2], f32, seed=39)
  %a1 = tensor([3, 1, 2, -1, -2, 0, 3, -1], f32, [2,2,2])
  %a2 = ravel(%a1)
  %a3 = diagonal(%a0, 2, -1, -2)
  %a4 = diagonal(%a0, -1, 0, 1)
  call @f(%a4)
  %b0 = clone(%a4)
  call @f(%b0)
}
