# With no iteration a gradient inside the function has no history in eager, and one of zeros in a compiled loop.

func @f(%p0) {
  %v0 = full([], 0, i64)
  %v1, %v2 = while_loop(func @test(%n: i64[], %a: f32[]) {
      return %n
    }, func @body(%n: i64[], %a: f32[]) {
      %m = add(%n, 1)
      %r = sin(%a)
      on_grad(%r, func @hook(%g: f32[], %e: f32[]) {
        return %g
      }, [%a])
      return %m, %r
    }, [%v0, %p0], [])
  return %v2
}
case "none" {
  %a1 = full([], 0, f32, requires_grad=true)
  call @f(%a1) grads=true dynamic=maybe control=true body=true
}
