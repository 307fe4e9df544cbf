# Refused: with create_graph, a hook of the body writes a gradient that is a view of a tangent.

func @f(%p0: f32[3,3,3]) {
  %v9 = select(%p0, 2, -1)
  on_grad(%v9, func @hook(%g: f32[3,3]) {
      mul_(%g, 2.0)
      return %g
    }, [])
  %v10 = squeeze_dims(%v9, [-2,1])
  on_grad(%v10, func @hook(%g: f32[3,3]) {
      return %g
    }, [])
  %v12... = split_with_sizes(%v10, [1,2,0], -1)
  return %v12.0, %v12.2
}
case "seed 3700022563" {
  %a0 = full([3,3,3], 2, f32, requires_grad=true)
  call @f(%a0)
  on_grad(%out.1, func @hook(%g: f32[3,0], %a: f32[3,0]) {
      return %a
    }, [%out.1])
  on_grad(%out.1, func @hook(%g: f32[3,0]) {
      return %g
    }, [])
  on_grad(%out.1, func @hook(%g: f32[3,0], %a: f32[3,0]) {
      return none
    }, [%out.1])
  backward %out.1 create_graph=true
no_grad {
}
}
