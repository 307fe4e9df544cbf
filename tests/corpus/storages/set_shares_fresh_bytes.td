# Results in bytes that set_ gave to several tensors.

func @f0() {
  %v1 = full([1,2,2], 1, i64)
  %v5 = reshape(%v1, [-1])
  %v8 = full([2], 2, i64)
  set_(%v5, %v8)
  return %v5
}

case "seed 3931" {
  call @f0()
}

func @f1(%p0: f32[1,1,1] @0) {
  %v0 = randint(-1, 1, [1,1], f32)
  set_(%p0, %v0, 1, [1,1])
  return %v0
}

case "seed 4123" {
  %a0 = randint(-1, 1, [1,1,1], f32)
  %a2... = split(%a0, 1)
  call @f1(%a2.0)
}
