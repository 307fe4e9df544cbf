# as_strided_scatter depends on the storage of its argument: for an argument that the call writes, that is the
# argument's own storage and not that of the copy it is read through.

func @kept(%p1) {
  %v2 = exp(%p1)
  no_grad {
  %v5 = as_strided_scatter(%p1, %p1, [1,3], [1,2], 3)
    mul_(%p1, 2)
  }
  return %v2, %v5
}

func @turned(%p1) {
  %v2 = exp(%p1)
  no_grad {
  %t = transpose(%p1, 0, 1)
  %v5 = as_strided_scatter(%t, %p1, [1,3], [1,2], 3)
    mul_(%p1, 2)
  }
  return %v2, %v5
}

func @region(%p1) {
  %v2 = exp(%p1)
  no_grad {
  %v5 = as_strided_scatter(%p1, %p1, [1,3], [1,2], 3) prefer_recompute 1
  %w = sin(%v5) prefer_recompute 1
  %z = sin(%w) prefer_recompute 1
    mul_(%p1, 2)
  }
  return %v2, %z
}

case "a chunk" {
  %a0 = randn([3,3], f32, seed=43, requires_grad=true)
  %a6... = chunk(%a0, 3, -2)
  call @kept(%a6.1)
  backward
}

case "reshaped" {
  %a0 = randn([3,3], f32, seed=43, requires_grad=true)
  %a6... = chunk(%a0, 3, -2)
  call @turned(%a6.1)
  backward
}

case "a part of a result" {
  %a0 = randn([3,3], f32, seed=43, requires_grad=true)
  %b0 = sin(%a0)
  %a6 = narrow(%b0, 0, 1, 1)
  call @kept(%a6)
  backward
}

case "in a checkpoint" {
  %a0 = randn([3,3], f32, seed=43, requires_grad=true)
  %b0 = sin(%a0)
  %a6 = narrow(%b0, 0, 1, 1)
  call @region(%a6)
  backward
}
