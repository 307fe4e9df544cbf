# A region under no_grad switches gradients on inside: its result requires grad.

func @f(%p: f32[2]) {
  no_grad {
    %v = region(func @r(%a: f32[2]) {
      enable_grad {
        %p = mul(%a, %a)
      }
      return %p
    }, [%p])
  }
  return %v
}

case "backward" {
  %x = randn([2], seed=85, requires_grad=true)
  call @f(%x)
  backward seed=1
}
