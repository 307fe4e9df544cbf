# The copy of an expanded input is summed in another order.

func @f(%p0: f32[3,2,3]) {
  %v4 = linalg_vector_norm(%p0, -2, [-2,2,0])
  %v12 = slice(%p0, -2, 2, 2, 1)
  round_(%v12, 1)
  return  %v4
}
case "seed 60096305" {
  %a1 = randn([3], f32,)
  %a4 = _expand_reduced(%a1, [3,2,3], none, true)
  call @f(%a4)
}
