# Eager's tape passes through a base whose elements are all overwritten, so that a tangent
# gets a gradient of zeros; the graph has none.

func @f(%p0: f32[1,1] @0) {
  %v0 = fill_(%p0, 0)
  %v1 = diagflat(%p0, 0)
  return %v1
}
case "seed 4220204242" {
  %a0 = full([1], 1, f32, requires_grad=true)
  %a1 = nanquantile(%a0, %a0, none, false)
  %a2 = unsqueeze(%a1, -1)
  call @f(%a2)
  %t = randn([1,1], f32, seed=6, requires_grad=true)
  backward %out.0 with %t create_graph=true
  %g0 = grad %a0
  backward %g0
}
