# Third gradients of an argument that only a custom function reads, next to a view of it.

func @f(%p0: f32[2] @0, %p2: f32[2] @0) {
  %v5 = custom("own", func @forward(%a: f32[2], %b: f32[2]) {
      %z = mul(%a, 2.0)
      return %z, %z <saved 0>
    }, func @backward(%z: f32[2] <saved 0>, %g: f32[2] <tangent 0>) {
      %h = mul(%z, %g)
      return %h <grad 0>, %g <grad 1>
    }, [%p0, %p2], [])
  return %p0, %p0, %v5
}
case "seed 750300367" {
  %a1 = randint(-2, 1, [2], f32, seed=7, requires_grad=true)
  %a4 = squeeze(%a1)
  call @f(%a4, %a1)
  backward %out.2 create_graph=true
  %g0 = grad %a1
  backward %g0 create_graph=true
  %g1 = grad %a1
  backward %g1
}
