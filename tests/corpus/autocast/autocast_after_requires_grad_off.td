# The first call switches requires_grad of its argument off; the second call, under autocast, gets a tensor without
# history.

func @f( %p1) {
  enable_grad {
    requires_grad_(%p1, false) prefer_recompute 1
    %v1 = custom("own", func @forward(%a: f32[1,1]) {
      return %a
    }, func @backward(%g: f32[1,1] <tangent 0>) {
      return 
    }, [%p1], [])
  }
  return 
}

case "a leaf that requires no grad any more, under autocast" {
  %a16 = randint(-1, 1, [1,1], f32, seed=68, requires_grad=true)
  call @f( %a16)
  %b1 = cat([%a16, %a16], 0)
  call @f( %b1) autocast=f16
}
