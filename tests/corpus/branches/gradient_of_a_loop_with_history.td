# With create_graph the gradient of a loop has a history where the incoming gradient has one.

func @f( %p3: f32[3,1]) {
  %v0 = full([], 0, i64)
  %v1, %v2 = while_loop(func @test(%n: i64[], %a: f32[3,1]) {
      return %n
    }, func @body(%n: i64[], %a: f32[3,1]) {
      %m = add(%n, 1)
      return %m, %a
    }, [%v0, %p3], [])
  log10_(%v2)
  return %v0, %v2
}
case "seed 164500266" {
  %a0 = tensor([1, -1, 1], f32, [3,1], requires_grad=true)
  call @f( %a0) control=true
  %n = randn([3,1], f32,)
  backward %out.1 with %n create_graph=true
  %g0 = grad %a0
}
