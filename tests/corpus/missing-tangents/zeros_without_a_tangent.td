# A gradient that is zeros for any tangent exists only if a tangent arrives.

func @f(%p0: f32[], %p2: f32[2,2,3]) {
  logical_not_(%p0)
  %v1 = to(%p2, f64)
  return %v1
}

case "seed 3996" {
  %a0 = randn([2], f32, seed=51, requires_grad=true)
  %a1 = tensor([-2, 0, 2, -2, 2, 3, 0, -1, -1, -1, -1, -2], f32, [2,2,3], requires_grad=true)
  %a4 = dot(%a0, %a0)
  call @f(%a4, %a1)
  backward
}
