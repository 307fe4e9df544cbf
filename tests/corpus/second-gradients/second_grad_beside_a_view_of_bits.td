# Gradients of gradients of a body that views the bits of an argument as another dtype.

func @f( %p1: f32[1,2] @1, %p2: f32[2,2] @2, %p3: f32[2,2] @2) {
  %v1 = _expand_reduced(%p1, [2,2,2], [0,1], true)
  %v7 = flatten(%v1, 1, 2)
  clamp_(%p2, none, 2)
  return %v7
}
case "seed 990012223" {
  %a5 = tensor([2, 1], f32, [1,2], requires_grad=true)
  %a7 = randn([2,2], f32, seed=91, requires_grad=true)
  %a8 = view_dtype(%a7, f32)
  call @f( %a5, %a8, %a7)
  backward %out.0 create_graph=true
}
