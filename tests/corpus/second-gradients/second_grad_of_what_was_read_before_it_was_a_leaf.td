# A second gradient; an argument is read, and then comes to require grad.

func @f(%p0: f32[2,2,2]) {
  %v2... = split(%p0, 2, 0)
    %v4 = requires_grad_(%p0, true)
  %v8 = randint(-2, 2, [2,2,2], f32)
  %v9 = scaled_dot_product_attention(%v2.0, %v8, %v4, none, 0.75, false, none)
  return %v9
}
case "read before it was a leaf" {
  %a0 = randn([2,2,2], f32,)
  call @f(%a0)
  backward create_graph=true
}
