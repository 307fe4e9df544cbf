# Without a history the write goes on, and a later statement fails for its own reason.

func @f(%p3: f32[2]) {
  %v0 = permute(%p3, [0])
  fmod_(%v0, %p3)
  %v1 = requires_grad_(%p3)
  %v7 = tensor([3, 2, 1], f32, [3,1])
  squeeze_dims_(%v7, [0,1])
  return
}
case "refused eagerly, fails later" {
  %a2 = full([2], 1, f32)
  call @f(%a2)
  call @f(%a2)
}
