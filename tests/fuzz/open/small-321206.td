# seed 321206: compiled: line 14: works, compiled fails: an inference tensor cannot require grad outside inference mode

func @f(%p0: i64[1,2]) {
  %v1... = chunk(%p0, 2, -1)
  inference {
    %v5 = to(%v1.0, f32)
  }
  inference {
      %v11 = requires_grad_(%v5, true)
  }
  return  %v11
}
case "seed 321206" {
  %a1 = tensor([1, 1], i64, [1,2])
    %a8... = split_with_sizes(%a1, [2], -1)
  call @f(%a8.0)
}
