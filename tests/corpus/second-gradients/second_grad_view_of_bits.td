# Gradients of gradients of a view of bits, written.

func @f( %p2: f32[1,3], %p3: f32[1,3]) {
  %v5 = _expand_reduced(%p2, [3,1,3], [0,1], false)
  %v8 = mul_(%p2, 2.0)
  return %v5
}
case "seed 87017765" {
  %a0 = randint(-3, 1, [1,3], f32, seed=22, requires_grad=true)
    %a2 = view_dtype(%a0, f32)
  %a3 = tensor([3, 0, 0], f32, [3], requires_grad=true)
  %a4 = eq_(%a2, %a3)
  call @f( %a2, %a0)
  backward create_graph=true
}
