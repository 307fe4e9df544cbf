# An expanded argument is written and gets another geometry after that.

func @f(%p0: f32[2,2]) {
  zero_(%p0)
  resize_(%p0, [2])
  return 
}
case "expanded zeroed and resized" {
  %a0 = randn([1,2], f32,)
  %a3 = expand(%a0, [2,-1])
  call @f(%a3)
}
