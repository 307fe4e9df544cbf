# An integer division by zero fails although nothing reads its result.

func @f0(%p0: f32[2]{2}+1 @0) {
  %v6 = randint(0, 2, [2], i64)
  div_(%v6, %v6, "trunc")
  return
}

case "seed 8030" {
  %a0 = randn([2,2], f32)
  %a2 = select(%a0, -1, 1)
  call @f0(%a2)
}

func @f1() {
  %v19 = full([1,1], 0, i64)
  %v20 = randint(-1, 1, [1,1], i64)
  div_(%v19, %v20, "floor")
  return
}

case "seed 39463" {
  call @f1()
}
