# Refused: gradients of gradients where one input is written through another in its bytes.

func @f(%p0: f32[1], %p1: f32[1]) {
  %v1, %v2, %v3 = native_layer_norm_backward(%p1, %p0, [1], %p0, %p1, %p0, [0,0,1])
  no_grad {
    ge_(%p0, %v3)
  }
  return  %v3
}
case "seed 40036459" {
  %a0 = tensor([-1, 1, 1], f32, [3], requires_grad=true)
  inference {
    %a2... = split(%a0, 1, 0)
  }
  call @f(%a2.2, %a2.1)
  backward create_graph=true
}
