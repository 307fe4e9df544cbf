# A second gradient of some results, through a view of a sum.

func @f(%p0: f32[1,2,3,2]{2,1,2,6} @0, %p1: f32[0,2] @1, %p2: f32[2] @2) {
  %v0 = tensor([], f32, [0])
  %v1 = resize_(%v0, [0,2])
  %v3 = transpose(%p1, 1, -1)
  eq_(%v0, %v3)
  %v6 = tril(%v3, -2)
  return %p2, %v6, %v6, %v6
}
case "seed 76002754" {
  %a0 = full([2,3,1,2], 0, f32)
  %a1 = randint(-3, 4, [2], f32,)
  %a2 = randint(-3, 4, [0,2], f32, seed=11, requires_grad=true)
  %a3 = permute(%a0, [-2,3,1,-4])
  call @f(%a3, %a2, %a1)
  backward %out.3, %out.2 create_graph=true
}
