# Refused: a hook is on a view of an argument that the function has written; in eager, gradients of the base do
# not pass through the hook.

func @f(%x: f32[3]) {
  mul_(%x, 2.0)
  on_grad(%x, func @hook(%g: f32[3]) {
      %d = mul(%g, %g)
      return %d
    }, [])
  %h = sin(%x)
  return %h
}
case "the view, its base and a result are used" {
  %x = randn([3,2], seed=1, requires_grad=true)
  %m = mul(%x, 1.0)
  %v = select(%m, 1, 0)
  call @f(%v)
  %s = sin(%v)
  %r = sin(%m)
  backward %out.0, %s, %r seed=4
}
