# A copy of a forward output of symbolic sizes has its strides, also where a column is all it has.

func @f(%p0: f32[3,1]{2,1} @0) {
  %v0 = copy(%p0, %p0, true)
  %v1 = reciprocal_(%p0)
  t_(%v1)
  logical_xor_(%v1, %v1)
  %v2 = tensor([1, 1, 1], bool, [3,1])
  masked_scatter_(%v0, %v2, %p0)
  %v3 = randint(-3, 4, [4], f16)
  %v4 = randn([1], f16)
  %v5 = copysign(%v3, %v4)
  sqrt_(%p0)
  return %v0
}

case "one column of two" {
  %a0 = full([3,2], 1, f32)
  %a1 = reshape_as(%a0, %a0)
  %a2... = split_with_sizes(%a0, [1,1], -1)
  call @f(%a2.0)
}
