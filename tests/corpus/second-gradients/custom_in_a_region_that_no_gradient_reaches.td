# Refused: a second gradient inside of the function, through a region with a custom function that gradients reach without a value.
func @inside(%p0: f32[1,1]) {
  %v5 = region(func @r2(%a: f32[1,1]) {
      %z = custom("own", func @forward(%u: f32[1,1]) {
        return %u, %u <saved 0>
      }, func @backward(%u: f32[1,1] <saved 0>, %g: f32[1,1] <tangent 0>) {
        return %g <grad 0>
      }, [%a], [])
      %s = sin(%z)
      return %s
    }, [%p0])
  %v9, %v10, %v11, %v12 = linalg_lstsq(%v5, %v5, none)
  return %v10
}
case "gradients inside" {
  %a2 = randn([1,1], f32, seed=36, requires_grad=true)
  call @inside(%a2) grads=true
  backward
}
