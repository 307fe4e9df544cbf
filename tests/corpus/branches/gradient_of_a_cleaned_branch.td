# The gradient of a loop requires grad if a result of its backward graph does; results of test and body do not count.

func @f(%p0: f32[1]) {
  %v10 = full([], 0, i64)
  %v11, %v12 = while_loop(func @test(%n: i64[], %a: f32[1]) {
      return %n
    }, func @body(%n: i64[], %a: f32[1]) {
      %m = add(%n, 1)
      return %m, %a
    }, [%v10, %p0], [])
  return %v12
}
case "seed 159306404" {
  %a0 = randn([1], f32, seed=82, requires_grad=true)
  call @f(%a0)
  backward %out.0, %out.0 create_graph=true
  %g0 = grad %a0
}
