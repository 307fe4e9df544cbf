# Eager recomputes a checkpointed region, which fails, for a value that the custom function saved and does not use.

func @f(%p0: f32[] <const>) {
  %v0, %v1 = custom("own", func @forward(%a: f32[], %b: f32[]) {
      %z = mul(%a, 2.0)
      return %z, %b, %b <saved 0>
    }, func @backward(%b: f32[] <saved 0>, %k: f32[] <tangent 1>, %g: f32[] <tangent 0>) {
      return
    }, [%p0, %p0], [])
  return %v0
}
case "seed 52196399" {
  %a0 = tensor([1], f32, [], requires_grad=true)
  no_grad {
    %a4 = squeeze_dim(%a0, -1)
  }
  call @f(%a4) checkpoint=true
  no_grad {
    fill_(%a4, 1)
  }
  backward
}
