# Refused: the first hook returns a tensor of the body as the gradient, the second writes
# it, and the third reads it. The compiled backward read the value of the call.

func @f(%p0: f32[1]) {
  %v0 = softsign(%p0)
  on_grad(%v0, func @hook(%g: f32[1], %a: f32[1]) {
      return %a
    }, [%v0])
  on_grad(%v0, func @hook(%g: f32[1]) {
      mul_(%g, 2.0)
      return %g
    }, [])
  on_grad(%v0, func @hook(%g: f32[1], %a: f32[1]) {
      return %a
    }, [%v0])
  %v10 = mul(%v0, 3.0)
  return %v10
}
case "backward twice" {
  %a1 = full([1], 1, f32, requires_grad=true)
  call @f(%a1)
  backward retain_graph=true
  backward
}
