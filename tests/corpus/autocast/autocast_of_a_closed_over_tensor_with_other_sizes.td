# The autocast mode receives composite ops before the recorder does: it must see the sizes that the body has set.

func @f(%p0: f16[2,3] @0 <const>) {
  unsqueeze_(%p0, 0)
  %v11 = flatten(%p0, 0, 2)
  return %v11
}
case "its parts are cast" {
  %a1 = tensor([3, -1, -2, 0, 2, 0], f32, [2,3])
  %a3 = to(%a1, f16, false)
  call @f(%a3) autocast=f16
}
case "without autocast" {
  %a1 = tensor([3, -1, -2, 0, 2, 0], f32, [2,3])
  %a3 = to(%a1, f16, false)
  call @f(%a3)
}
