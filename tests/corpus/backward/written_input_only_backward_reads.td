# The result of hardswish_ has no elements and as_strided_ drops it: only backward reads
# the copy of the input before the write. Forward makes that copy all the same.

func @f(%p: f32[1,1,1,0] <const>) {
  hardswish_(%p)
  as_strided_(%p, [0,1], [1,1])
  return
}

case "closed over" {
  %a = randint(-1, 1, [1,1,1,1], f32, seed=67, requires_grad=true)
  %b = diff(%a, 1)
  call @f(%b)
}
