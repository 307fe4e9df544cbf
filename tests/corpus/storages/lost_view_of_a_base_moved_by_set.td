# Eager fails to compute the grad_fn of a view whose base was set to another storage by an earlier call.

func @f(%p0: f32[1], %p2: f32[1]) {
  %v0 = reshape(%p2, [1])
  no_grad {
    %v1 = randint(0, 1, [1], bool)
    %v2 = masked_scatter_(%p0, %v1, %p0)
  }
  %v15 = log10(%v2)
  no_grad {
    %v16 = set_(%v2, %v15)
  }
  return 
}
case "seed 120061459" {
  %a0 = randn([1], f32, seed=11, requires_grad=true)
  %a3... = chunk(%a0, 1)
  call @f(%a0, %a3.0)
  call @f(%a0, %a3.0)
}
