# Views of inputs that a program makes in other grad modes than those its next
# view op runs in.

func @f0(%p1: f32[1,1,1] @1) {
  %v8 = view_as(%p1, %p1)
  return %v8
}

case "seed 3220" {
  %a0 = randint(-1, 1, [1,1,1], f32, seed=85, requires_grad=true)
  inference {
    %a3 = expand_as(%a0, %a0)
  }
  call @f0(%a3)
}

func @f1(%p0: f32[] @0) {
  inference {
    %v12 = swapaxes(%p0, 0, 0)
  }
  %v22 = expand(%v12, [1])
  return %v22
}

case "seed 4339" {
  %a0 = randint(-1, 1, [], f32, seed=47, requires_grad=true)
  call @f1(%a0)
}

func @f2(%p0: f32[2,0]) {
  no_grad {
    %v6 = view_as(%p0, %p0)
  }
  %v8... = split(%v6, 2, -2)
  return %v8.0
}

case "seed 3302" {
  %a0 = randint(-2, 2, [2,2,2], f32, seed=13, requires_grad=true)
  %a1 = narrow(%a0, -2, 1, 0)
  %a2 = diagonal(%a1, -1)
  call @f2(%a2)
  backward
}
