# as_strided_scatter returns a storage as large as that of its argument, also for fake tensors.

func @f(%p0: f32[1,2]{2,1}+6 @0, %p1: f32[1,2] @0, %p2: f32[2,2] @0, %p3: i64[] @1, %p4: i64[] @1) {
  %v0 = as_strided_scatter(%p1, %p1, [1,2], [1,1])
  as_strided_(%v0, [1,2], [0,2], 1)
  return
}
case "scatter takes whole storage" {
  %a0 = full([], 0, i64)
  %a2 = randint(-2, 1, [2,2], f32)
  %a3... = split(%a2, 1)
  call @f(%a3.1, %a3.0, %a2, %a0, %a0)
}
