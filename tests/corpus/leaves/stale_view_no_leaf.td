# A stale view without a history of its own.

func @f(%p1: f32[1,1,1] @0) {
  requires_grad_(%p1, false)
  return
}
case "stale view no leaf" {
  %a0 = randn([1,1,1], f32, seed=38, requires_grad=true)
  inference {
    %a2... = chunk(%a0, 1)
    %a3 = randint(0, 1, [1,1,1], i64)
    %a4 = scatter_reduce_(%a0, 0, %a3, %a0, "prod", true)
  }
  call @f(%a2.0)
}
