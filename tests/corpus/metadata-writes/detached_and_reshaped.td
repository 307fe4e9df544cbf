# A leaf is detached, written with history, and its geometry is written.

func @f(%p0: f32[3,3], %p1: f32[3,3]) {
  %v2 = detach_(%p1)
  %v7 = randint(0, 3, [3,3], i64)
  %v8 = index_put_(%v2, [%v7], %p0, false)
  unsqueeze_(%p1, -1)
  return
}
case "detached and reshaped" {
  %a0 = tensor([-1, -1, -1, 0, -1, 1, 3, 1, 3], f32, [3,3], requires_grad=true)
  %a1 = full([3,3], 1, f32, requires_grad=true)
  call @f(%a0, %a1)
}
