# Compiled with debug_asserts: the program captured again differs in the offset of an argument, which is no part of the key.

func @f(%p0: u8[]) {
  %v1 = full([3,3,3], 1, f64)
  %v2 = sub_(%v1, %p0, -1.5)
  ceil_(%v2)
  %v3 = tensor([-1, 1, 1, 0, 1, 0, -1, 3, 0, -1, 0, 0], f32, [3,4])
  %v4 = square(%v3)
  bitwise_not_(%p0)
  %v5 = expand_as(%v4, %v4)
  %v6, %v7 = sort(%v3, 1)
  return %v4, %v3, %v3
}

case "seed 440181343" {
  %a0 = randint(-3, 4, [], f32, seed=87, requires_grad=true)
  %a1, %a2 = cummin(%a0, -1)
  %a3 = randint(0, 4, [3], u8, seed=66)
  %a4 = select(%a3, -1, 1)
  call @f(%a4) module=eval
  no_grad {
  }
inference {
  call @f(%a4) module=train
}
  %b0 = clone(%a4)
inference {
  call @f(%b0) module=train
}
}
