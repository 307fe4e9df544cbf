# A temporary, a view, is set to an argument and written: its grad_fn cannot be read later.

func @f(%p0: f32[1,1]) {
  %v0 = max_pool1d(%p0, [1], [1])
  set_(%v0, %p0, none, none, none)
  %v1 = custom("own", func @forward(%a: f32[1,1]) {
      %z = sin(%a)
      return %z
    }, func @backward(%g: f32[1,1] <tangent 0>) {
      return 
    }, [%p0], [])
  selu_(%v0)
  %v4 = custom("own", func @forward(%a: f32[1,1]) {
      return %a
    }, func @backward(%g: f32[1,1] <tangent 0>) {
      return 
    }, [%v1], [])
  return 
}
func @g(%q0: f32[1,1], %q1: f32[1,1]) {
  return 
}
case "a temporary set to an argument" {
  %a0 = randint(-1, 1, [1,1], f32, seed=89, requires_grad=true)
  call @f(%a0)
}
