# seed 68094706: compiled: line 11: %out.0 has a gradient, compiled does not

func @f(%p0: f32[2,2,2,2] @0) {
  %v3 = transpose(%p0, 0, -2)
  %v4 = requires_grad_(%v3)
  %v5 = contiguous(%v4)
    %v7 = requires_grad_(%v3, false)
  return %v4, %v5
}
case "seed 68094706" {
  %a0 = randn([2,2,2,2], f32,)
  call @f(%a0)
  backward
}
