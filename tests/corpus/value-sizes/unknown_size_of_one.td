# Only for a size of 1, which depends on values, the rule is kept.

func @f( %p2: f32[2,2]) {
  %v3 = pow_3(%p2)
  addmm_(%v3, %p2, %v3, 1)
  ceil_(%v3)
  %v8 = nonzero(%v3)
  %v9 = clone(%v8)
  %v13 = randint(0, 1, [1], i64)
  index_copy_(%v8, 0, %v13, %v9)
  return 
}
case "unknown size of one" {
  %a0 = randn([2,2], f32, seed=15, requires_grad=true)
  call @f( %a0)
}
