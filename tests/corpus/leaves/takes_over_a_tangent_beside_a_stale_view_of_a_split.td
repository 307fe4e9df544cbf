# A leaf takes over a strided tangent as its .grad; a result of unsafe_split of that leaf, whose grad_fn may not be read since a write under no_grad, is among the values that are compared
func @f(%p0: f32[2,2] @0, %p1: i64[2,2,2]{4,1,2} @1, %p2: f32[2,2] @0) {
  no_grad {
    uniform_(%p0, 0.0, 1.0)
  }
  return %p0
}
case "a stale view of several beside a strided tangent" {
  %a0 = randint(-2, 4, [2,2,2], i64,)
  %a1 = randn([2,2], f32, seed=16, requires_grad=true)
  %a3... = unsafe_split(%a1, 2, -2)
  call @f(%a1, %a0, %a3.0)
  %s = randn([2,4], f32,)
  %t = slice(%s, -1, 0, 4, 2)
  backward %out.0 with %t
  backward
}
