# With symbolic sizes a plain tensor of its sizes was passed in its place.

func @f(%p0: i64[1,2] of fz_pair("m", i64[1,2], i64[1,2]), %p1: f32[2,2,2]) {
  %v0 = addcdiv(%p1, %p1, %p1, -1.25)
  return %v0, %p0
}
case "seed 5077" {
  %a2 = randn([2,2,2], f32, seed=59, requires_grad=true)
  %a3 = randint(-2, 1, [1,2], i64,)
  %a4 = randint(-2, 1, [1,2], i64,)
  %a5 = _wrap([%a3, %a4], "fz_pair", "m", [1,2], [], i64)
  call @f(%a5, %a2)
  backward %out.0, %out.1 create_graph=true
no_grad {
}
}
