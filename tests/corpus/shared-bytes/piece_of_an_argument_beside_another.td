# Two arguments have the same elements, one of them no history: a view of the other has that argument's history.

func @f(%p0: f32[2,2,2], %p4: f32[2,2,2]) {
  %v8 = as_strided(%p4, [2,2,2], [0,1,1], 2)
  %v12 = neg(%v8)
  return %v12
}
func @g(%p0: f32[4] @0, %p2: f32[2,2] @0) {
  resize_(%p2, [2,1])
  %v5 = selu(%p2)
  return %v5
}
case "a piece beside an inference view" {
  %a0 = randn([2,2,2], f32, seed=36, requires_grad=true)
  inference {
    %a4 = alias(%a0)
  }
  call @f(%a4, %a0)
  backward
}
case "a detached piece" {
  %a0 = tensor([0, 0, 1, 1], f32, [2,2], requires_grad=true)
  %a1 = detach(%a0)
  %a3 = ravel(%a0)
  call @g(%a3, %a1)
}
