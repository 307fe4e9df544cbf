# Backward with create_graph from one result: the gradient requires no grad where that of the others would.

func @f( %p1) {
    %v1 = randint(0, 2, [2], i64)
    %v2 = _index_put(%p1, [%v1], %p1, true)
  %v9 = full([3,3], 0, i64)
  %v12 = hypot(%p1, %v2)
  return %v2, %v12, %v9, %v2
}
case "seed 74019366" {
  %a1 = full([3], 2, f32, requires_grad=true)
  %a2... = chunk(%a1, 2, 0)
  call @f( %a2.0)
  backward %out.3, %out.3 create_graph=true
  %g0 = grad %a1
no_grad {
}
}
