# A region saves nothing for an operand that requires grad and has no history: a view made in inference mode.

func @f( %p1) {
  inference {
      %v4 = squeeze_dims(%p1, [2,0,1])
  }
  %v8, %v9 = region(func @r0(%a: f32[1,1,1,1], %b: f32[1,1,1,1]) {
      no_grad {
        %p = mul(%a, %b)
      }
      %q = mul(%p, %a)
      return %p, %q
    }, [%v4, %p1])
  %v17 = atan2_(%v8, %p1)
  return %v9
}
case "seed 1000138903" {
  %a4 = randn([1,1,1,1], f32, seed=8, requires_grad=true)
  call @f( %a4)
  backward
}
