# A stale view whose base ceases to require grad in the call.

func @f( %p2: f32[2,3], %p3: f32[2,3]) {
  detach_(%p3)
  return 
}
case "seed 86060122" {
  %a1 = full([2,3], 1, f32)
  %a2 = reshape_as(%a1, %a1)
  %a4 = randint(0, 2, [2], i64,)
  %a5 = tensor([0, -2, 0, -1, 3, 3], f32, [2,3], requires_grad=true)
  index_copy_(%a1, 0, %a4, %a5)
  call @f( %a2, %a1)
}
