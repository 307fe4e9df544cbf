# seed 1200025460: functional: line 18: %a1 has version 1, functional 2; line 18: %out.0 has version 1, functional 2

func @f(%p0: f32[3] @0, %p3: f32[3] @0) {
  %v1 = unflatten(%p0, -1, [3])
  on_grad(%v1, func @hook(%g: f32[3], %a: f32[3]) {
      return %a
    }, [%p0])
  on_grad(%v1, func @hook(%g: f32[3]) {
      mul_(%g, 2.0)
      return none
    }, [])
  on_grad(%v1, func @hook(%g: f32[1]) {
      return %g
    }, [])
  return  %v1
}
case "seed 1200025460" {
  %a1 = tensor([3, 1, -1], f32, [3], requires_grad=true)
  call @f(%a1, %a1)
  backward
}
