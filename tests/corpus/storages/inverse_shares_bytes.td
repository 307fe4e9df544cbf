# The inverse of a view op may return the view itself, which shares storage.

func @f(%p1: f32[3,2] @0, %p4: f32[3,2] @0) {
  %v1 = full([2,1,2,2], 1, f32)
  %v15 = randint(0, 2, [2], bool)
  %v17 = squeeze_dim_inverse(%v1, %v1, 3)
  return %p1, %v1, %v17
}

case "inverse shares bytes" {
  %a0 = full([], 0, i64)
  %a1 = flatten(%a0, -1, 0)
  %a2 = tensor([2, 3, 0, 3, 2, 1], f32, [3,2])
  call @f(%a2, %a2)
}
