# Inference tensors as inputs that are written or saved.

func @f0(%p1) {
  inference {
    t_(%p1)
  }
  return
}

case "seed 7985" {
  inference {
    %a3 = tensor([-1, 1, 0, 1, 0, -1, -1, 1, 3], f32, [3,3])
    %a4... = chunk(%a3, 3, -1)
  }
  call @f0(%a4.2)
}

func @f1(%p0: i16[]{}+1 @0, %p1: i16[] @0) {
  inference {
    bitwise_left_shift_(%p1, -1)
  }
  return
}

case "seed 8319" {
  %a0 = tensor([0, 1, 0, -1], i16, [4])
  inference {
    %a1 = to(%a0, i16, true)
  }
  %a3... = unbind(%a1, 0)
  call @f1(%a3.3, %a3.0)
}

func @f2(%p0: bf16[1]) {
  %v1 = round(%p0, -1)
  atan_(%v1)
  return %v1
}

case "seed 25444" {
  inference {
    %a8 = randn([1], bf16, seed=74, requires_grad=true)
  }
  call @f2(%a8)
}
