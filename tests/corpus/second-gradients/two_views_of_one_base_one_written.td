# Two views of one tensor are passed and one is written: no first gradient reaches their
# old histories, the second one does.

func @f(%p0, %p1) {
  inference {
    %v4 = custom("own", func @forward(%a: f32[2,1]) {
      return %a, %a <saved 0>
    }, func @backward(%a: f32[2,1] <saved 0>, %g: f32[2,1] <tangent 0>) {
      return 
    }, [%p0], [])
  }
  sinh_(%p1) prefer_save 1
  return  %p0
}
func @g(%q0: f32[2,1], %q1: i64[2,2]) {
  return 
}
case "seed 1300197337" {
  %a0 = tensor([-2, 2, -1, 2], f32, [2,2], requires_grad=true)
  %a4 = randint(0, 2, [2,2], i64,)
  %a5 = randint(-2, 2, [2], f32,)
  %a6 = _index_put(%a0, [%a4], %a5, true)
  %a7 = squeeze_dim(%a6, 1)
  %a8 = slice(%a7, 1, none, none, 2)
  call @f(%a8, %a7)
  backward create_graph=true
  %g0 = grad %a0
  backward %g0 create_graph=true
no_grad {
}
}
