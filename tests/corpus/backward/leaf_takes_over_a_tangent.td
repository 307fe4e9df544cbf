# Eager's gradient is a view of a strided tangent, which the leaf takes over; the compiled
# backward copies such a tangent.

func @f( %p1: f32[]) {
  %v0 = diagflat(%p1, 1)
  return %p1, %v0
}
case "seed 3831000849" {
  %a2 = randint(-2, 4, [], f32, seed=66, requires_grad=true)
  call @f( %a2)
  %s = randn([2,4], f32,)
  %t = slice(%s, -1, 0, 4, 2)
  backward %out.1 with %t
  backward
}
