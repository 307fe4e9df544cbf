# Refused: as gradient_by_a_region_result_after_its_gradient.td, of a branch.

func @f(%p0: f32[1], %c: bool[]) {
  %v0 = cond(%c, func @yes(%a: f32[1]) {
      %r = exp(%a)
      return %r
    }, func @no(%a: f32[1]) {
      %r = exp(%a)
      return %r
    }, [%p0])
  %v1 = region(func @grad1(%a: f32[1], %b: f32[1]) {
      return %b
    }, [%p0, %v0])
  %v3 = region(@grad1, [%v0, %v1])
  return %v3
}
case "cond" {
  %a2 = full([1], 0.5, f32, requires_grad=true)
  %c = full([], true, bool)
  call @f(%a2, %c) control=true body=true
}
