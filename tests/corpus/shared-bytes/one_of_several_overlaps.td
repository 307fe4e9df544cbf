# A result that overlaps itself, made of one of several views, has its history.

func @f(%p0: f32[2,3,2]) {
  %v0 = add(%p0, 1.5)
  mul_(%v0, 3.0)
  %v1 = clone(%p0)
  %v2, %v3 = unbind(%v0, 0)
  %v4 = expand(%v3, [2,3,2])
  %v5 = select(%v4, 2, 1)
  return %v1, %v5
}
case "x" {
  %a = randn([2,3,2], f32, seed=1, requires_grad=true)
  call @f(%a)
  backward seed=3
}
