# Refused: a hook returns an argument as the gradient, which the next hook writes, and the function writes the
# argument too.

func @f(%x: f32[2] @0) {
  %v0 = mul(%x, 2.0)
  on_grad(%v0, func @hook(%g: f32[2], %a: f32[2]) {
      return %a
    }, [%x])
  on_grad(%v0, func @hook(%g: f32[2]) {
      mul_(%g, 2.0)
      return none
    }, [])
  no_grad {
    add_(%x, 1.0)
  }
  return %v0
}
case "both write the argument" {
  %a = randn([2], f32, seed=27, requires_grad=true)
  %x = mul(%a, 1.0)
  call @f(%x)
  backward
}
