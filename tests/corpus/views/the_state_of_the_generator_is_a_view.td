# With functional_rng the parts of a state are selected from it: a view has an offset and strides.

func @f(%p0: i64[2,2], %p1: i64[4]) {
  %v0... = unbind(%p0)
  %v1 = random_state(%v0.1)
  %v2 = randn([3], f32)
  %v3 = slice(%p1, 0, 1, 4, 2)
  %v4 = random_state(%v3)
  %v5 = randn([3], f32)
  %v6 = random_state(%v1)
  return %v2, %v5, %v6
}

case "of two rows" {
  %a0 = tensor([1, 0, 5, 8], i64, [2,2])
  %a1 = tensor([1, 7, 5, 4], i64, [4])
  call @f(%a0, %a1)
}
