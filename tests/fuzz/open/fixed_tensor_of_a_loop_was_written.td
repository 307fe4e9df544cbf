# A loop saves a fixed tensor that it does not need, so create_graph fails; eager works.

func @f(%p0: f32[1] @0) {
  %v2 = _scale(%p0, -1)
  %v3 = rsqrt_(%v2)
  sigmoid_(%v2)
  %v5 = full([], 0, i64)
  %v6, %v7 = while_loop(func @test(%n: i64[], %a: f32[1], %b: f32[1]) {
      return %n
    }, func @body(%n: i64[], %a: f32[1], %b: f32[1]) {
      %m = add(%n, 1)
      return %m, %b
    }, [%v5, %p0], [%v3])
  return %v5, %v7
}
case "seed 154502851" {
  %a1 = randn([1], f32, seed=1, requires_grad=true)
  call @f(%a1) control=true
  backward %out.1 create_graph=true
}
