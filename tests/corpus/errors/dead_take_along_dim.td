# An index out of range fails although nothing reads the result.

func @f(%p0: f32[3,1] @0) {
  %v0, %v1 = var_mean(%p0, none, 1, false)
  %v5 = randint_like(%v0, -1, 1)
    %v14 = randint(-3, 1, [], i64)
    %v15 = randint(0, 3, [], i64)
    %v16 = take_along_dim(%v14, %v15, none)
  %v24 = full([3,3], 1, i8)
  %v25 = bernoulli_p(%v24)
  return
}
case "dead take along dim" {
  %a0 = tensor([0, -1, 1], f32, [3,1])
  call @f(%a0)
  call @f(%a0)
}
