# seed 87174685: compiled: line 12: %out.0 has strides [2,0,2], compiled [4,2,1]; line 12: %out.0: element 1 is -0.61760908365249634, compiled -0.92466241121292114

func @f(%p0: f32[2,2,2]) {
    %v7 = narrow(%p0, 1, 0, 0)
  %v8... = split_with_sizes(%p0, [1,1], -2)
  remainder_(%v7, %v7)
  %v20 = randn([2,1,2], f32)
  %v21 = slice_scatter(%v8.1, %v20)
  return %v21
}
case "seed 87174685" {
  %a1 = full([2,2,2], 2, f32)
    %a3 = as_strided(%a1, [2,2,2], [2,0,2], 2)
  call @f(%a3)
}
