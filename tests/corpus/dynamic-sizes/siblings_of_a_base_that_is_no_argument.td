# Views of one base that is no argument, all of which require grad: a write to one makes the
# others anew, so their sizes stay numbers.
func @f_3801800718(%p0: f32[1], %p1: f32[1]) {
  no_grad {
    set_(%p1, %p0)
    %v0 = add_(%p0, %p1)
    %v13 = selu_(%p1)
  }
  return 
}
case "siblings of a base that is no argument, grads--wide" {
  %a2 = full([2], 2, f32, requires_grad=true)
  %a4... = split_with_sizes(%a2, [0,1,1], -1)
  call @f_3801800718(%a4.2, %a4.1)
}

func @f_3802006504(%p0: f32[1], %p1: f32[0]) {
  inference {
    %v0 = randint(-2, 2, [1], f32)
    heaviside_(%p0, %v0)
  }
  return 
}
case "siblings of a base that is no argument, user" {
  %a0 = full([2,2], 0, f32, requires_grad=true)
  %a2 = prod_dim(%a0, -2, false, f32)
  %a4... = split_with_sizes(%a2, [2,0], 0)
  %a5 = as_strided(%a4.1, [1], [1], 1)
  call @f_3802006504(%a5, %a4.1)
}

