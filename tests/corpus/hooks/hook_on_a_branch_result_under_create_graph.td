# Refused: eager's gradient of exp reads the result of exp, so that a gradient of that
# gradient runs the hook on the result once more. The recorded gradient of a captured
# branch repeats its ops; compiled code did not run the hook.

func @f(%p0: f32[1], %c: bool[]) {
  %v0 = cond(%c, func @yes(%a: f32[1]) {
      %r = exp(%a)
      return %r
    }, func @no(%a: f32[1]) {
      %r = exp(%a)
      return %r
    }, [%p0])
  on_grad(%v0, func @hook(%g: f32[1]) {
      %h = mul(%g, 3.0)
      return %h
    }, [])
  %w = mul(%v0, 1.0)
  return %w
}
case "hook" {
  %a = full([1], 0.5, f32, requires_grad=true)
  %c = full([], true, bool)
  call @f(%a, %c) control=true
  backward create_graph=true
  %g = grad %a
  backward %g
}
