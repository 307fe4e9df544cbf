# A detached inference tensor is one.

func @f(%p0: f32[3]) {
  %v0 = detach(%p0)
  return  %v0
}
case "detached inference" {
  %a0 = tensor([1, 3, -1], f32, [3])
  inference {
    %a2 = softplus_backward(%a0, %a0, 1.75, 1)
  }
  call @f(%a2)
}
