# An empty view is written beside its base: the second gradient is a tensor of its own,
# because it arrives by way of the history that the view had before the write.

func @f(%p0: f32[0,1] @0, %p1: f32[1,0] @0) {
  erfc_(%p0)
  %v6 = tensor([1, -1, -1, -1, 3, 1, 0, 0, -1], f32, [3,3])
  %v10 = custom("own", func @forward(%a: f32[3,3]) {
      return %a, %a <saved 0>
    }, func @backward(%a: f32[3,3] <saved 0>, %g: f32[3,3] <tangent 0>) {
      return 
    }, [%v6], [])
  %v11 = custom("own", func @forward(%a: f32[3,3]) {
      return %a
    }, func @backward(%g: f32[3,3] <tangent 0>) {
      return 
    }, [%v10], [])
  return 
}
func @g(%q0: f32[0,1]) {
  return %q0
}
case "seed 1350096854" {
  %a0 = full([1,3], 1, f32, requires_grad=true)
  %a2 = narrow(%a0, -1, 1, 0)
  %a3 = neg(%a2)
  %a4 = t(%a3)
  call @f(%a4, %a3)
  %y... = call @g(%a4)
  backward create_graph=true
  %g0 = grad %a0
  backward %g0 create_graph=true
  %g1 = grad %a0
}
