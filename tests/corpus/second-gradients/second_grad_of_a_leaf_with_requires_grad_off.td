# Double backward of a body that switches requires_grad of an input off.

func @f(%p0: f32[1,1,1], %p1: f32[1,1,1]) {
  %v1 = sum_to_size(%p1, [1,1,1])
  requires_grad_(%v1, false)
  %v2 = sign(%v1)
  %v3 = full([1,1,1], 1, f32)
  %v4 = lerp_(%v2, %p0, %v3)
  return %v4
}
case "seed 138164148" {
  %a0 = randint(-1, 1, [1,1,1], f32, seed=73, requires_grad=true)
  %a1 = alias(%a0)
  call @f(%a1, %a0)
  backward create_graph=true
}
