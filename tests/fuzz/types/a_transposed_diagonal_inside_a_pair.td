# A view of an inner tensor had the strides that its type stated, not those of the op.

func @f( %p1) {
  %v0 = transpose(%p1, -1, 0)
  %v11 = full([2], 1, f32)
  %v13 = softshrink_backward(%v0, %v11, 1.25)
  return  %v13
}
case "seed 2482" {
  %a2 = full([2], 1, f32)
  %a3 = _wrap([%a2], "fz_diag", "", [2,2], [], f32)
  %a4 = randn([2,2], f32,)
  %a5 = _wrap([%a3, %a4], "fz_pair", "", [2,2], [], f32)
  call @f( %a5)
}
