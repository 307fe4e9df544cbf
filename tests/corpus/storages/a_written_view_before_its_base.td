# set_ moves a base to an offset after its view, and the view is written: backward would fail, in eager too, but is
# not called.

func @f(%p0: f32[2,2] grad @0) {
  %v0 = squeeze(%p0)
  inference {
    %v2 = randint(-3, 4, [2,2], f32)
    set_(%p0, %v2, 2, [2,2,2])
  }
  %v10 = randint(0, 2, [2], i64)
  index_add_(%v0, -2, %v10, %v2, -1)
  enable_grad {
    mish_(%v0)
  }
  return %v2
}
case "a view before its base" {
  %a1 = tensor([-2, -1, 3, -2], f32, [2,2], requires_grad=true)
  %a2 = sign(%a1)
  call @f(%a2)
}