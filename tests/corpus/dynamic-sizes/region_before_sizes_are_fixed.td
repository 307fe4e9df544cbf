# A region is captured with symbolic sizes, and then an op makes numbers of all sizes: the
# graph of the region had symbols that its program does not have.

func @f(%p: f32[3,2], %q: f32[2,2]) {
  %v = region(func @r(%a: f32[2,2]) {
    %k = rand_like(%a)
    %r = mul(%a, %k)
    return %r
  }, [%q])
  %w = region(@r, [%v])
  cos_(%p)
  %u = as_strided(%p, [1,2], [1,0])
  return %w, %u
}

case "twice" {
  %q = randn([2,2], seed=64)
  %p = randn([3,2], seed=81)
  call @f(%p, %q) control=true
  call @f(%p, %q) control=true
}
