# Gradients of gradients of a view, beside the same view detached.

func @f(%p0: f32[1,2,2] @0) {
  %v0 = _scale(%p0, 2)
  %v1 = ravel(%v0)
  %v2 = detach(%v1)
  return %v2, %v1
}
case "second_grad_beside_a_detached_view" {
  %a1 = randn([1,2,2], f32, seed=55, requires_grad=true)
  call @f(%a1)
  backward %out.1, %out.0 create_graph=true
}
