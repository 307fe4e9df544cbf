# Equal views without elements were merged, though an op writes one and reads the other.

func @f(%p0: i64[], %p2: f32[1,0,1,1]) {
  %v4... = hsplit_indices(%p2, [1,0,1,1])
  %v6 = randint(0, 1, [1,0,1,1], i64)
  %v7 = scatter_reduce_(%v4.3, -1, %v6, %v4.0, "sum", true)
  cos_(%v7)
  return 
}
case "seed 4502202901" {
  %a0 = tensor([-1], i64, [])
  %a1 = randint(-2, 4, [1,0,1,1], f32,)
  %a3 = special_shifted_chebyshev_polynomial_t(%a1, true)
  call @f(%a0, %a3) autocast=f16
}
