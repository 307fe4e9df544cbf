# A custom function that writes an input with a history, called without gradients, returns a detached alias of it.

func @no_grad(%p0: f32[3]) {
  %v = mul(%p0, 2)
  no_grad {
    %w = custom("own", func @forward(%a: f32[3]) {
      mul_(%a, 2.0)
      return %a
    }, func @backward(%g: f32[3] <tangent 0>) {
      %h = mul(%g, 2.0)
      return %h <grad 0>
    }, [%v], [], dirty=[0])
  }
  %y = sin(%v)
  return %w, %v, %y
}

func @inference(%p0: f32[3]) {
  %v = mul(%p0, 2)
  inference {
    %w = custom("own", func @forward(%a: f32[3]) {
      mul_(%a, 2.0)
      return %a
    }, func @backward(%g: f32[3] <tangent 0>) {
      %h = mul(%g, 2.0)
      return %h <grad 0>
    }, [%v], [], dirty=[0])
  }
  return %w, %v
}

case "under no_grad" {
  %a = randn([3], f32, seed=1, requires_grad=true)
  call @no_grad(%a)
  backward seed=3
}

case "in inference mode" {
  %a = randn([3], f32, seed=1, requires_grad=true)
  call @inference(%a)
  backward seed=3
}

case "an input without a history" {
  %a = randn([3], f32, seed=1)
  call @no_grad(%a)
}
