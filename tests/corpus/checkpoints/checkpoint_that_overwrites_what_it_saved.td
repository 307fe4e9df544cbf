# The region writes a value in place that its backward reads: an error, with a checkpoint and without.

func @f(%p0: f32[2,2,2]) {
  %v2 = randint(-2, 2, [2,2,2], f32)
  baddbmm_(%v2, %v2, %p0, 2)
  return %v2
}
case "a product written over one of its factors" {
  %a1 = randn([2,2,2], f32, seed=80, requires_grad=true)
  call @f(%a1) checkpoint=true
  backward
}
