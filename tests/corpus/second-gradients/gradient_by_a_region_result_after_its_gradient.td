# Refused: eager's gradient of exp reads the result of exp, so that a gradient of it by
# that result passes through both. The gradient of a captured region repeats its ops and
# reads their results, which are others; compiled code gave less.

func @f(%p0: f32[1]) {
  %v0 = region(func @r0(%a: f32[1]) {
      %r = exp(%a)
      return %r
    }, [%p0])
  %v1 = region(func @grad1(%a: f32[1], %b: f32[1]) {
      return %b
    }, [%p0, %v0])
  %v3 = region(@grad1, [%v0, %v1])
  return %v3
}
case "region" {
  %a = full([1], 0.5, f32, requires_grad=true)
  call @f(%a) control=true body=true
}
