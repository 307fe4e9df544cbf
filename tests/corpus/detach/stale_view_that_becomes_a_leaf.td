# A stale view is a leaf after its base is detached; a stale view whose history eager refuses to read may be an argument.

func @f(%p0: f32[1,1] @0, %p1: f32[1,1] @0) {
  detach_(%p1)
  %v1 = mul(%p0, 2.0)
  return %v1
}
case "plain stale view, base detached" {
  %a0 = randint(-1, 1, [1,1], f32, requires_grad=true)
  %a1 = alias(%a0)
  requires_grad_(%a1)
  no_grad {
    mul_(%a1, 2.0)
  }
  call @f(%a1, %a0)
  backward seed=2
}
case "no_grad stale view, base detached" {
  %a0 = randint(-1, 1, [1,1], f32, requires_grad=true)
  no_grad {
    %a1 = alias(%a0)
  }
  requires_grad_(%a1)
  no_grad {
    mul_(%a1, 2.0)
  }
  call @f(%a1, %a0)
  backward seed=2
}
func @h(%q0: f32[1,1], %q1: f32[1,1]) {
  %u0 = exp(%q1)
  no_grad {
    %u5 = dropout(%q0, 0.75, true)
  }
  return %u0
}
case "not read, create_graph" {
  %a0 = randint(-1, 1, [1,1], f32, requires_grad=true)
  %w = randint(-1, 1, [1,1], f32, requires_grad=true)
  no_grad {
    %a1 = alias(%a0)
  }
  requires_grad_(%a1)
  no_grad {
    mul_(%a1, 2.0)
  }
  call @h(%a1, %w)
  backward seed=2 create_graph=true
}
func @leaves(%p0: f32[1,1] @0, %p1: f32[1,1] @0, %p2: f32[1,1] @0) {
  ge_(%p0, 0)
  requires_grad_(%p1, true)
  requires_grad_(%p0)
  requires_grad_(%p2)
  detach_(%p1)
  %v1 = mul(%p0, %p2)
  return %v1
}
case "two views become leaves" {
  %a0 = randint(-1, 1, [1,1], f32)
  %a1 = alias(%a0)
  %a2 = alias(%a0)
  call @leaves(%a1, %a0, %a2)
  backward seed=3
}
func @off(%p0: f32[1,1] @0, %p1: f32[1,1] @0) {
  ge_(%p0, 0)
  requires_grad_(%p1, true)
  requires_grad_(%p0)
  requires_grad_(%p1, false)
  %v1 = mul(%p0, 3.0)
  return %v1
}
case "switched off" {
  %a0 = randint(-1, 1, [1,1], f32)
  %a1 = alias(%a0)
  call @off(%a1, %a0)
  backward seed=3
}
