# A write through a transposed view of another dtype goes back to the base, one element of it at a time.

func @f(%p0: f32[2,2,2] @0) {
  %v0 = view_dtype(%p0, f64)
  %v1 = transpose(%v0, 2, -2)
    %v5 = tanh_(%v1)
  return
}
case "dtype view transposed one" {
  %a0 = full([2,2,2], 1, f32)
  call @f(%a0)
}
