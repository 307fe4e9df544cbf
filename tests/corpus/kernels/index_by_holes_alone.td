# No index is given, so that every dim is kept. PyTorch does this where there are no
# elements, and stops at an internal check elsewhere.
func @f(%p: f32[2,3], %e: f32[2,0], %v: f32[3], %n: f32[0]) {
  %a = index(%p, [none])
  %b = index_put(%p, [none], %v)
  %c = index_put(%p, [none, none], %v, true)
  %d = index(%e, [none])
  %f = index_put(%e, [none], %n)
  %q = mul(%p, 2.0)
  index_put_(%q, [none], %v, true)
  return %a, %b, %c, %d, %f, %q
}
case "holes alone" {
  %p = randn([2,3], f32, seed=1, requires_grad=true)
  %e = zeros([2,0], requires_grad=true)
  %v = randn([3], f32, seed=2, requires_grad=true)
  %n = zeros([0])
  call @f(%p, %e, %v, %n)
  backward seed=3
}
