# A view that was resized shows more than its base.

func @f(%p0: f32[1]) {
  %v0, %v1 = topk(%p0, 1, -1)
  %v4 = slice(%v0, 0, none)
  %v8 = resize_(%v4, [3,3])
  ne_(%v0, %p0)
  return %v8, %v0
}
case "resized view" {
  %a0 = tensor([2, 3, -1], f32, [3])
  %a3... = chunk(%a0, 2, -1)
  call @f(%a3.1)
}
