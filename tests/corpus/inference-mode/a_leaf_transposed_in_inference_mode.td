# Refused: the leaf is transposed after it was used, and only with create_graph does eager fail to copy its gradient.
func @f() {
  %v0 = randn([1,0], bf16)
  %v1 = requires_grad_(%v0)
  %v4 = relu(%v0)
  %v6 = randn([1], f32)
  inference {
    %v8 = t_(%v1)
  }
  return %v6, %v4
}
case "a_leaf_transposed_in_inference_mode" {
  call @f()
  backward %out.1 create_graph=true
}
