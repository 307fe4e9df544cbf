# Elements of an argument read through another one in its bytes, second gradient.

func @f(%p0: f32[1,2]{2,1}+2 @0, %p1: f32[2,2,2] @0, %p2: f32[1,2,2] @0, %p3: f32[2,2,2] @0) {
  %v11 = full([2,2,2], 1, f32)
  %v12 = as_strided_scatter(%p3, %v11, [2,2,2], [2,2,1], 2)
  %v13 = logsumexp(%v12, [-2,2,0], false)
  return  %v13
}
case "seed 78014504" {
  %a1 = randn([2,2,2], f32, seed=84, requires_grad=true)
  %a3 = narrow(%a1, -3, 0, 1)
  %a4... = unbind(%a3, -2)
  call @f(%a4.1, %a1, %a3, %a1)
  backward create_graph=true
  %g0 = grad %a1
  backward %g0 create_graph=true
}
