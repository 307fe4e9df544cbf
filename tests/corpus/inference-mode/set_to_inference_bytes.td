# A tensor set onto an inference tensor's bytes is none.

func @f(%p0: f32[2,1]) {
  %v1 = randn([2,2], f32)
  set_(%v1, %p0)
  %v4... = chunk(%v1, 1, -2)
  return %v4.0
}
case "set to inference bytes" {
  inference {
    %a3 = randint(-2, 2, [2,2], f32)
    %a4... = split(%a3, 1, -1)
  }
  call @f(%a4.1)
}
