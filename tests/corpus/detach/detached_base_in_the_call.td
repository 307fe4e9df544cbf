# A view keeps requiring grad when the call itself detaches its base.

func @f(%p0: f32[2,1,1,2] @0, %p2: f32[2,1,1,2] @0) {
  detach_(%p2)
  no_grad {
    %v8 = squeeze(%p0)
  }
  %v11 = squeeze_(%v8)
  %v14 = selu(%p0)
  return %v14
}
case "seed 90021209" {
  %a0 = tensor([2, 1, -1, 0], f32, [2,1,1,2], requires_grad=true)
  %a2 = view(%a0, [2,1,1,2])
  call @f(%a2, %a0)
  call @f(%a2, %a0)
}
