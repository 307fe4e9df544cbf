# Eager's gradient is a view of a transposed tangent, which the leaf takes over; the
# compiled backward copies such a tangent.

func @f(%p0: f32[2,2]{1,2} @0) {
  %v0 = squeeze_dim_copy(%p0, -1)
  t_(%v0)
  return %v0, %v0, %v0
}
case "seed 3721804985" {
  %a1 = randint(-2, 2, [2,2], f32, seed=35, requires_grad=true)
  %a3 = t(%a1)
  call @f(%a3)
  %t = randn([2,2], f32,)
  backward %out.2 with %t
  backward
}
