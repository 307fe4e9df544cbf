# %out.0 requires grad in eager and not in compiled functions. It is a view whose base is
# written after the view got its history, and then detached.

func @f(%p0: f32[3,3,3]{0,3,1} @0, %p1: f32[3,3] @1) {
  %v0 = randn([3,3], f32)
  %v1 = einsum("ij->ji", [%v0])
  %v6 = randint(0, 3, [3,3], i64)
  scatter_add_(%v1, 0, %v6, %p1)
  square_(%v0)
  detach_(%v0)
  return  %v1
}
case "seed 400127397" {
  %a0 = tensor([-1, -1, -1, 1, 1, 0, -1, 1, -1], f32, [3,3], requires_grad=true)
  %a6 = _expand_reduced(%a0, [3,3,3], none, false)
  call @f(%a6, %a0)
}
