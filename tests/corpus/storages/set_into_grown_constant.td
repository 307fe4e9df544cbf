# A constant is set into a storage that grew: after the call it is still in that storage.

func @f(%p0: f32[2,2,2]) {
  %v0 = tensor([1, 2], f32, [1,2])
  %v1 = set_(%p0, %v0, 0, [4,2], none)
  bernoulli_(%v1, 1.0)
  return 
}
case "found" {
  %a1 = tensor([0, 2, 1, 0, -2, -2, 1, -2], f32, [2,2,2])
  call @f(%a1)
}
