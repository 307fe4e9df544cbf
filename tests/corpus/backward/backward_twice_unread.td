# A second backward through a node that saved a value fails, also where nothing reads the value.

func @f(%p0: f32[1,1,1]) {
  lt_(%p0, 0.5)
  %v8 = erfc_(%p0)
  return %p0
}
case "backward twice unread" {
  %a1 = randn([1,1,1], f32)
  %a3 = randint(-1, 1, [1,1,1], f32, seed=35, requires_grad=true)
  %a4 = hardshrink_backward(%a1, %a3, 1)
  call @f(%a4)
  backward
  backward
}
