# A view without elements may have an offset before the written elements.

func @f(%p0: f32[0]{1}+1 @0, %p1: f32[1]{1}+2 @0, %p2: f32[1]{1}+2 @0, %p3: f32[1]{1}+1 @0, %p4: f32[1] @0) {
  copysign_(%p1, -2)
  as_strided_(%p1, [0], [1], 2)
  return
}
case "empty piece in front" {
  %a0 = randn([4,1], f32)
  %a1... = unbind(%a0, -2)
  %a2 = slice(%a1.1, 0, 0, -2, 1)
  call @f(%a2, %a1.3, %a1.2, %a1.1, %a1.0)
}
