# A view written twice keeps its history when its base is detached after that.

func @f(%p0: f32[2] @0) {
  %v3 = select(%p0, 0, 1)
  %v5 = leaky_relu_(%v3, 0.5)
  %v8 = randint(-3, 2, [], f32)
  xlogy_(%v3, %v8)
  detach_(%p0)
  return  %v5
}
case "a base detached after writes of its view" {
  %a0 = randn([3], f32, seed=99, requires_grad=true)
  %a1 = diff(%a0)
  call @f(%a1)
  backward
}
