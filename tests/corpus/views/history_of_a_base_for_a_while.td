# A view read while its base requires grad has a history, also when the base has none any more.

func @f(%p0: f32[4] @0, %p1: f32[4] @0) {
  %v7 = tensor([-1, 0, 1, 1], f32, [4])
  %v8 = ne_(%p1, %v7)
    requires_grad_(%v8)
    %v13, %v14 = median_dim(%p0, 0, false)
  %v15 = detach_(%v8)
  return 
}
case "history of a base for a while" {
  %a1 = tensor([0, 1, 1, 0], f32, [4])
  %a2 = transpose(%a1, -1, -1)
  call @f(%a2, %a1)
}
