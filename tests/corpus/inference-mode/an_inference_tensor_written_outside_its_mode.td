# No mode but inference mode writes an inference tensor.

func @f(%p0: f32[1]) {
  %v3 = logical_and_(%p0, %p0)
  return 
}
case "seed 330053988" {
  %a1 = randint(-1, 1, [1], f32,)
  inference {
    %a3 = slice_scatter(%a1, %a1, 0)
  }
no_grad {
  call @f(%a3)
}
}
func @g(%p0: f32[2]) {
  resize_(%p0, [1])
  return
}
case "resized with gradients on" {
  %a1 = randn([2], f32)
  inference {
    %a3 = mul(%a1, %a1)
  }
  call @g(%a3)
}
