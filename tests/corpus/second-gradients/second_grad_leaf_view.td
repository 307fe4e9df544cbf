# Gradients of gradients of a view that requires grad for itself, base written.

func @f(%p0: f32[2], %p2: f32[2]) {
  %v7 = normal_(%p2)
  %v12 = randint(0, 2, [2], i64)
  %v13 = index_add(%p0, 0, %v12, %p0, false)
  return %v13, %p2
}
case "seed 79029502" {
  %a1 = randn([2], f32,)
  %a2 = as_strided(%a1, [2], [0])
    %a3 = requires_grad_(%a2)
  call @f(%a3, %a1)
  backward %out.1, %out.0 create_graph=true
}
