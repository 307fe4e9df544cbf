# A storage that grew by half an element of another dtype.

func @f() {
  %v6 = full([3,2], 1, f32)
  %v7... = split_with_sizes(%v6, [1,1,1])
  set_(%v6, %v6, 1, [2,3], none)
    %v11 = view_dtype(%v7.2, f64)
    %v12 = as_strided(%v11, [], [])
  return %v12
}
case "list with odd end" {
  call @f()
}
