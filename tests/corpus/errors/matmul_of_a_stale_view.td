# The first part of a composite fails: the others do not look at what is not there.

func @f(%p0: f32[2] @0, %p1: f32[2,1] @0) {
  %v5 = neg_(%p1)
  %v6 = full([2,2,3], 0, f32)
  %v7 = matmul(%p0, %v6)
  return %v7
}
case "matmul of a stale view" {
  %a0 = randn([2,1], f32, seed=31, requires_grad=true)
  %a1 = clone(%a0)
  %a3... = unbind(%a1, -1)
  call @f(%a3.0, %a1)
}
