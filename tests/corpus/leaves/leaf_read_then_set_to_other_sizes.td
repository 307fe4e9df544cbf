# A leaf that is read and then set to a storage of other sizes: gradients of what was read go to its first accumulator.

func @f(%p0: f32[1]) {
  %v1 = neg(%p0)
  no_grad {
      %v14 = ones([1,1], f32)
      %v15 = set_(%p0, %v14)
  }
  return %v1, %v15
}
case "first" {
  %a0 = randn([1], f32, seed=38, requires_grad=true)
  call @f(%a0)
  backward %out.0
}
case "both" {
  %a0 = randn([1], f32, seed=38, requires_grad=true)
  call @f(%a0)
  backward
}
case "second" {
  %a0 = randn([1], f32, seed=38, requires_grad=true)
  call @f(%a0)
  backward %out.1
  backward %out.0
}

func @twice(%p0: f32[1]) {
  %v1 = neg(%p0)
  no_grad {
    %w = ones([1,1], f32)
    set_(%p0, %w)
  }
  %v2 = exp(%p0)
  no_grad {
    %u = ones([1,1,1], f32)
    set_(%p0, %u)
  }
  %v3 = mul(%p0, 2.0)
  return %v1, %v2, %v3
}
case "set twice, read before, between and after" {
  %a0 = randn([1], f32, seed=38, requires_grad=true)
  call @twice(%a0)
  backward %out.0
  backward %out.2
}
