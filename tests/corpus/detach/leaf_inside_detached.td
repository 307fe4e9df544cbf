# A leaf made inside takes gradients, although it was detached since; with create_graph.

func @f() {
  %v0 = randn([1,1])
  %v1 = requires_grad_(%v0, true)
  %v5 = exp2(%v1)
  detach_(%v0)
  return  %v5, %v0
}
case "seed 77162700" {
  call @f()
  backward create_graph=true
}
