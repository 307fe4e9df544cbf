# The remaining term of a sum has an offset in its storage; see debug_asserts.

func @f( %p1, %p2) {
  %v2 = unsqueeze(%p2, 0)
  %v5 = unsqueeze(%p2, -2)
  %v13 = alias(%v5)
  %v17 = sum(%v5)
  %v18 = view_as(%p2, %p2)
  %v19 = as_strided_backward(%v17, [], [], 1, [], [], 2)
  enable_grad {
    %v20 = t(%v17)
  }
  return %v19, %v20, %v17, %v17
}
case "seed 138004800" {
  %a0 = randint(-2, 4, [1,2,1,2], f32,)
  %a1 = randint(-2, 4, [], i8, seed=35)
  %a2 = randn([2,2], f32, seed=32, requires_grad=true)
  %a3 = transpose(%a0, 1, 0)
  call @f( %a3, %a2)
  backward %out.0
  call @f( %a3, %a2)
  backward
}
