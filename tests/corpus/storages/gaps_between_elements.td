# Gaps between the elements of a result are zero.

func @f(%p0: f32[2,3]) {
  %v0 = tensor([3, -1, 3, 1, 0, 1], f32, [2,3])
  %v1 = slice_scatter(%p0, %v0)
  %v5 = as_strided(%v1, [3], [1])
  return %p0, %v5, %v5
}
case "gaps between elements" {
  %a0 = randn([3,3,3], f32)
  %a3... = split(%a0, 2, -1)
  %a4 = diagonal(%a3.0)
  call @f(%a4)
}
