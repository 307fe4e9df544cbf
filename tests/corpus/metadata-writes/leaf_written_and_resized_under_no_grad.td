# A leaf that nothing read with gradients gets other sizes under no_grad: its gradient has the new sizes, also where
# the call saves the old leaf for double backward.

func @f(%p0: f32[6,5], %p1: f32[3]) {
  triu_(%p0, -1)
  no_grad {
    %v4 = randint(0, 2, [3], bool)
    %v5 = masked_scatter_(%p1, %v4, %p0)
    unsqueeze_(%v5, -1)
  }
  return  %v5
}
case "beside a history" {
  %a0 = randint(-3, 2, [3,3], f32, seed=76, requires_grad=true)
  %a2 = tensor([2, 1, -1], f32, [3], requires_grad=true)
  %a16 = pad(%a0, [2,0,2,1])
  call @f(%a16, %a2)
  backward
}

func @written(%p0, %p1) {
  %y = mul(%p0, %p0)
  no_grad {
    mul_(%p1, 2)
    unsqueeze_(%p1, 0)
  }
  return %y, %p1
}

func @read(%p0, %p1) {
  no_grad {
    %w = mul(%p1, 2)
    unsqueeze_(%p1, 0)
  }
  %y = mul(%p0, %w)
  %z = mul(%y, %p0)
  return %z, %p1
}

func @same(%p0, %p1, %p2) {
  %y = mul(%p0, %p0)
  no_grad {
    mul_(%p1, 2)
    unsqueeze_(%p2, 0)
  }
  return %y, %p1, %p2
}

case "twice" {
  %a0 = randn([3], f32, seed=1, requires_grad=true)
  %a1 = randn([3], f32, seed=2, requires_grad=true)
  call @written(%a0, %a1)
  backward
  call @written(%a0, %a1)
  backward
}

case "read" {
  %a0 = randn([3], f32, seed=1, requires_grad=true)
  %a1 = randn([3], f32, seed=2, requires_grad=true)
  call @read(%a0, %a1)
  backward
}

case "read, history" {
  %a0 = randn([3], f32, seed=1, requires_grad=true)
  %a1 = randn([3], f32, seed=2, requires_grad=true)
  call @read(%a0, %a1)
  backward create_graph=true
}

case "shares" {
  %a0 = randn([3], f32, seed=1, requires_grad=true)
  %a1 = randn([3], f32, seed=2, requires_grad=true)
  %a2 = detach(%a1)
  call @same(%a0, %a2, %a1)
  backward %out.0
  backward %out.2
}
