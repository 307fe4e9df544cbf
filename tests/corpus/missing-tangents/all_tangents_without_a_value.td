# All tangents of a call come without a value; its custom backward runs with zeros.


func @f( %p2: f32[2,2,2]) {
  %v0, %v1 = custom("own", func @forward(%a: f32[2,2,2], %b: f32[2,2,2]) {
      return %a, %a
    }, func @backward(%k: f32[2,2,2] <tangent 1>, %g: f32[2,2,2] <tangent 0>) {
      return %g <grad 0>
    }, [%p2, %p2], [])
  return %p2, %v1, %v0, %v0
}
func @g(%q0: f32[2,2,2]) {
  %u0 = linalg_vector_norm(%q0, false)
  return %u0
}
case "results of a custom function, and its input" {
  %a1 = tensor([1, 2, 2, 2, -1, -1, -1, 1], f32, [2,2,2], requires_grad=true)
  call @f( %a1)
  %y... = call @g(%out.3)
  backward
}
