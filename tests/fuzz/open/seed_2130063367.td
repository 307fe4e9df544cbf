# seed 2130063367: functional: line 18: %out.1 has strides [1,2], functional [2,1]

func @f(%p0) {
  %v8 = full([], 0, i64)
  %v9, %v10, %v11 = while_loop(func @test(%n: i64[], %a: f32[2,2], %b: f32[2,2]) {
      return %n
    }, func @body(%n: i64[], %a: f32[2,2], %b: f32[2,2]) {
      %m = add(%n, 1)
      return %m, %a, %b
    }, [%v8, %p0, %p0], [])
  %v14 = randn([2,2], f32)
  %v15, %v16 = triangular_solve(%v11, %v14, true)
  return %v15
}
func @g(%q0: f32[]) {
  return 
}
case "seed 2130063367" {
  %a3 = tensor([2, 2, 2, 2], f32, [2,2], requires_grad=true)
  call @f(%a3) grads=true control=true body=true
}
