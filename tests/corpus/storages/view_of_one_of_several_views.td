# A view of one of several views may not be written either.

func @f(%p0: f32[1,1,3,2]) {
  %v0 = permute(%p0, [1,2,3,0])
  return %v0
}
case "view of one of several views" {
  %a0 = randn([3,1,3,2], f32, seed=7, requires_grad=true)
  %a1 = to(%a0, f32, true)
  %a2... = split(%a1, 2)
  call @f(%a2.1)
}
